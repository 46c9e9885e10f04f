// Package socket asks the Python process about pods. It knows no Kubernetes: pods are UIDs and bytes.
//
// scheduler_plugin/kube_scheduler/frames.py describes the frames.
package socket

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
)

const (
	version   = 1
	magic     = 0x4B4F4F52
	headBytes = 12
	mostBytes = 1 << 20
	mostRows  = 1 << 16
	hasCodes  = 1
	hasScores = 2
)

type kind uint8

const (
	hello, welcome kind = 1, 32
	pod, closing   kind = 2, 33
	gone, ready    kind = 3, 34
	synced, table  kind = 4, 35
	ask, answer    kind = 5, 36
	check, code    kind = 6, 37
	reserve, wake  kind = 7, 38
	unreserve      kind = 8
	refused        kind = 9
)

var errBadFrame = errors.New("a frame that is not of this protocol")

func appendFrame(to []byte, k kind, number uint32, payload []byte) []byte {
	to = binary.LittleEndian.AppendUint32(to, uint32(len(payload)))
	to = append(to, byte(k), 0, 0, 0)
	to = binary.LittleEndian.AppendUint32(to, number)
	return append(to, payload...)
}

func appendText(to []byte, text string) []byte {
	text = text[:min(len(text), 0xFFFF)]
	to = binary.LittleEndian.AppendUint16(to, uint16(len(text)))
	return append(to, text...)
}

func texts(values ...string) []byte {
	var payload []byte
	for _, value := range values {
		payload = appendText(payload, value)
	}
	return payload
}

type frame struct {
	kind   kind
	number uint32
	fields fields
}

func readFrame(from io.Reader) (frame, error) {
	var head [headBytes]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return frame{}, err
	}
	length := binary.LittleEndian.Uint32(head[:])
	if length > mostBytes || head[5] != 0 || head[6] != 0 || head[7] != 0 {
		return frame{}, fmt.Errorf("%w: a header with kind %d and length %d", errBadFrame, head[4], length)
	}
	payload := make([]byte, length)
	if _, err := io.ReadFull(from, payload); err != nil {
		return frame{}, err
	}
	return frame{kind(head[4]), binary.LittleEndian.Uint32(head[8:]), fields{rest: payload}}, nil
}

// fields of a payload, read in their order. Beyond the end they are zero, and torn is set.
type fields struct {
	rest []byte
	torn bool
}

func (f *fields) take(length int) []byte {
	if f.torn || length > len(f.rest) {
		f.torn = true
		return nil
	}
	taken := f.rest[:length]
	f.rest = f.rest[length:]
	return taken
}

func (f *fields) integer(length int) uint32 {
	var whole [4]byte
	copy(whole[:], f.take(length))
	return binary.LittleEndian.Uint32(whole[:])
}

func (f *fields) u8() byte { return byte(f.integer(1)) }

func (f *fields) u32() uint32 { return f.integer(4) }

func (f *fields) text() string { return string(f.take(int(f.integer(2)))) }

func (f *fields) hasMore() bool { return !f.torn && len(f.rest) > 0 }

func (f *fields) end() error {
	if f.torn {
		return fmt.Errorf("%w: it ends within a field", errBadFrame)
	}
	return nil
}

// Reason why a node is refused.
type Reason struct {
	Text       string
	Resolvable bool // whether the eviction of pods can end it
}

// Table has the row of each node. It never changes: a change makes another one.
type Table struct {
	generation uint32
	rows       map[string]int
	names      []string
}

func (t *Table) with(f *fields) (*Table, error) {
	next := &Table{f.u32(), maps.Clone(t.rows), slices.Clone(t.names)}
	for f.hasMore() {
		row, node := int(f.u32()), f.text()
		if row >= mostRows {
			return nil, fmt.Errorf("%w: row %d, want less than %d", errBadFrame, row, mostRows)
		}
		for row >= len(next.names) {
			next.names = append(next.names, "")
		}
		if last := next.names[row]; next.rows[last] == row {
			delete(next.rows, last)
		}
		next.names[row] = node
		if node != "" {
			next.rows[node] = row
		}
	}
	return next, f.end()
}

// Answer about one pod: what all nodes have for it.
type Answer struct {
	table      *Table
	reasons    []Reason
	codes      []byte
	scores     []byte
	unknown    byte
	resolvable int
	texts      map[byte]string
}

func readAnswer(f *fields, t *Table, reasons []Reason) (*Answer, error) {
	generation, rows := f.u32(), int(f.u32())
	a := &Answer{table: t, reasons: reasons, resolvable: int(int32(f.u32())), unknown: f.u8(), texts: map[byte]string{}}
	flags := f.u8()
	if rows > mostRows || flags&^(hasCodes|hasScores) != 0 {
		return nil, fmt.Errorf("%w: an answer of %d rows with flags %d", errBadFrame, rows, flags)
	}
	if flags&hasCodes != 0 {
		a.codes = f.take(rows)
	}
	if flags&hasScores != 0 {
		a.scores = f.take(rows)
	}
	for f.hasMore() {
		c := f.u8()
		a.texts[c] = f.text()
	}
	if generation != t.generation {
		return nil, fmt.Errorf("%w: an answer of another generation than that of the table", errBadFrame)
	}
	return a, f.end()
}

// Rows is the number of rows that may be refused.
func (a *Answer) Rows() int { return len(a.codes) }

// PassesAll states whether no node is refused, also none that Python does not know.
func (a *Answer) PassesAll() bool { return a.codes == nil && a.unknown == 0 }

// Code of a node, 0 if it passes, and its row, -1 for an unknown one.
func (a *Answer) Code(node string) (row int, code byte) {
	row, known := a.table.rows[node]
	if !known {
		return -1, a.unknown
	}
	if row < len(a.codes) {
		return row, a.codes[row]
	}
	return row, 0
}

// Score of a node, 0 to 100.
func (a *Answer) Score(node string) int64 {
	if row, known := a.table.rows[node]; known && row < len(a.scores) {
		return int64(a.scores[row])
	}
	return 0
}

// Reason of a code on a row.
func (a *Answer) Reason(code byte, row int) Reason {
	var reason Reason
	if index := int(code) - 1; index < len(a.reasons) {
		reason = a.reasons[index]
	}
	if text, other := a.texts[code]; other {
		reason.Text = text
	}
	reason.Resolvable = reason.Resolvable || (row >= 0 && row == a.resolvable)
	return reason
}
