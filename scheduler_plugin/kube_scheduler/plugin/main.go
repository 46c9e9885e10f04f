// Kube-scheduler with the plugin KoordSuite, which asks the Python process in the same pod.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/component-base/metrics/legacyregistry"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
)

func main() {
	legacyregistry.MustRegister(unasked)
	unasked.WithLabelValues("passed").Add(0) // from 0 on, or an alert misses the first
	unasked.WithLabelValues("held").Add(0)
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(name, new(process).newPlugin))))
}
