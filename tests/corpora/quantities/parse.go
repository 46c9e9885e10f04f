package main

import (
	"bufio"
	"fmt"
	"os"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<24)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		quantity, err := resource.ParseQuantity(lines.Text())
		if err != nil {
			fmt.Fprintln(out, "-")
			continue
		}
		dec := quantity.AsDec()
		fmt.Fprintf(out, "%se%d\n", dec.UnscaledBig(), -int64(dec.Scale()))
	}
}
