package socket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/maphash"
	"net"
	"strings"
	"sync"
	"time"
)

const (
	dialTimeout  = time.Second
	writeTimeout = 10 * time.Second
	retryAfter   = 100 * time.Millisecond
	batchBytes   = 8 << 10  // of changed pods: a question waits behind so many
	mostUnsent   = 16 << 20 // of questions and notices; then the connection begins again
	socketBuffer = 64 << 10
)

var seed = maphash.MakeSeed()

// ErrAway means that Python does not answer.
var ErrAway = errors.New("the scheduler plugin does not answer")

// Options of a client. A pod is named by its UID, a space, and its namespace and name. The functions may be called with
// a lock held: they must not call the client.
type Options struct {
	Path     string
	Profile  string
	Minor    string
	Deadline time.Duration
	Patience time.Duration // for which the first question waits after the start
	All      func() []string
	Show     func(named string) []byte // nothing for a pod that is gone
	Wake     func(uids []string)       // these pods pass now
	Turned   func()                    // Python answers from now on, or does not
	Log      func(err error, text string)
}

type reply struct {
	answer *Answer
	code   byte
}

// Client of one profile. Its methods may be called from any goroutine.
type Client struct {
	options Options
	began   time.Time
	signal  chan struct{} // something is to be written
	first   chan struct{} // closed once Python has answered that it is ready

	mu       sync.Mutex
	conn     net.Conn
	isSynced bool // every pod was shown to this connection
	isReady  bool
	isLate   bool // a deadline has passed, and no answer has come since
	urgent   []byte
	order    []string
	changed  map[string]bool
	shown    map[string]uint64 // hash of what was shown of a pod
	reserved map[string]string // node by pod
	waiting  map[uint32]chan reply
	number   uint32
	once     sync.Once

	// of the goroutine that reads
	reasons []Reason
	table   *Table
}

// New returns a client that has not begun.
func New(options Options) *Client {
	return &Client{
		options: options, began: time.Now(), signal: make(chan struct{}, 1), first: make(chan struct{}),
		reserved: map[string]string{}, waiting: map[uint32]chan reply{},
	}
}

// Run connects, and connects again, until the context ends.
func (c *Client) Run(ctx context.Context) {
	last := ""
	for ctx.Err() == nil {
		err := c.serve(ctx)
		if err != nil && err.Error() != last && ctx.Err() == nil {
			last = err.Error()
			c.options.Log(err, "no connection with the scheduler plugin, trying again")
		}
		select {
		case <-ctx.Done():
		case <-time.After(retryAfter):
		}
	}
}

func (c *Client) serve(ctx context.Context) error {
	conn, err := net.DialTimeout("unix", c.options.Path, dialTimeout)
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	_ = conn.(*net.UnixConn).SetWriteBuffer(socketBuffer) // smaller: fewer pods are ahead of a question
	c.begin(conn)
	ended := make(chan struct{})
	defer close(ended)
	defer c.end()
	go c.write(conn, ended)
	for from := bufio.NewReaderSize(conn, socketBuffer); ; {
		received, err := readFrame(from)
		if err == nil {
			err = c.handle(received)
		}
		if err != nil {
			return err
		}
	}
}

func (c *Client) begin(conn net.Conn) {
	c.mu.Lock()
	c.conn, c.isSynced, c.isReady, c.isLate = conn, false, false, false
	c.order, c.changed, c.shown = nil, map[string]bool{}, map[string]uint64{}
	c.table, c.reasons = &Table{rows: map[string]int{}}, nil
	payload := binary.LittleEndian.AppendUint32(nil, magic)
	payload = binary.LittleEndian.AppendUint16(payload, version)
	c.urgent = appendFrame(nil, hello, 0, append(payload, texts(c.options.Profile, c.options.Minor)...))
	c.mu.Unlock()
	for _, named := range c.options.All() { // from here on none that changes is missed
		c.Changed(named, false)
	}
	c.notify()
}

func (c *Client) end() {
	c.change(func() {
		c.conn = nil
		for number, waiting := range c.waiting {
			close(waiting)
			delete(c.waiting, number)
		}
	})
}

func (c *Client) answers() bool { return c.conn != nil && c.isReady && !c.isLate }

func (c *Client) notify() {
	select {
	case c.signal <- struct{}{}:
	default:
	}
}

func (c *Client) write(conn net.Conn, ended <-chan struct{}) {
	for {
		batch := c.batch()
		if len(batch) == 0 {
			select {
			case <-c.signal:
				continue
			case <-ended:
				return
			}
		}
		_ = conn.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := conn.Write(batch); err != nil {
			conn.Close()
			return
		}
	}
}

// batch returns what is to be written next: questions and notices, else some of the changed pods.
func (c *Client) batch() []byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if batch := c.urgent; len(batch) > 0 {
		c.urgent = nil
		return batch
	}
	var batch []byte
	for len(c.order) > 0 && len(batch) < batchBytes {
		batch = c.show(batch, c.order[0])
		c.order = c.order[1:]
	}
	if len(c.order) == 0 && !c.isSynced {
		c.isSynced = true
		for named, node := range c.reserved {
			batch = appendFrame(batch, reserve, 0, texts(uidOf(named), node))
		}
		batch = appendFrame(batch, synced, 0, nil)
	}
	return batch
}

func uidOf(named string) string {
	uid, _, _ := strings.Cut(named, " ")
	return uid
}

func (c *Client) show(to []byte, named string) []byte {
	if !c.changed[named] {
		return to
	}
	delete(c.changed, named)
	before, isShown := c.shown[named]
	if payload := c.options.Show(named); len(payload) > 0 && len(payload) <= mostBytes {
		if c.shown[named] = maphash.Bytes(seed, payload); isShown && before == c.shown[named] {
			return to
		}
		return appendFrame(to, pod, 0, payload)
	}
	if !isShown {
		return to
	}
	delete(c.shown, named)
	uid, key, _ := strings.Cut(named, " ")
	return appendFrame(to, gone, 0, texts(uid, key))
}

// Changed states that a pod is to be shown, if what is shown of it differs; isSettled: it has its node or is gone, which ends its reservation.
func (c *Client) Changed(named string, isSettled bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if isSettled {
		delete(c.reserved, named)
	}
	if c.conn != nil && !c.changed[named] {
		c.changed[named] = true
		c.order = append(c.order, named)
		c.notify()
	}
}

// Ask returns the answer about a pod. It takes no longer than the deadline. The first one may wait for Python to start.
func (c *Client) Ask(named string) (*Answer, error) {
	if patience := time.Until(c.began.Add(c.options.Patience)); patience > 0 {
		select {
		case <-c.first:
		case <-time.After(patience):
		}
	}
	r, err := c.question(ask, named, nil)
	return r.answer, err
}

// Check returns the code of one row for a pod, without the pods with these UIDs, which a dry run has removed from there.
func (c *Client) Check(named string, row int, removed []string) (byte, error) {
	r, err := c.question(check, named, append(binary.LittleEndian.AppendUint32(nil, uint32(row)), texts(removed...)...))
	return r.code, err
}

func (c *Client) question(k kind, named string, more []byte) (reply, error) {
	c.mu.Lock()
	if !c.answers() || !c.send(k, c.number+1, named, more) {
		c.mu.Unlock()
		return reply{}, ErrAway
	}
	c.number++
	number, waiting := c.number, make(chan reply, 1)
	c.waiting[number] = waiting
	c.mu.Unlock()
	deadline := time.NewTimer(c.options.Deadline)
	defer deadline.Stop()
	select {
	case r, came := <-waiting:
		if !came {
			return reply{}, ErrAway
		}
		return r, nil
	case <-deadline.C:
	}
	c.change(func() {
		c.isLate = c.isLate || c.waiting[number] != nil
		delete(c.waiting, number)
	})
	return reply{}, ErrAway
}

// send queues a frame about a pod, behind the pod itself where that is to be shown; not about one that is gone.
func (c *Client) send(k kind, number uint32, named string, more []byte) bool {
	if len(c.urgent) > mostUnsent {
		c.conn.Close()
		return false
	}
	if _, isShown := c.shown[named]; !isShown {
		c.changed[named] = true
	}
	c.urgent = c.show(c.urgent, named)
	c.notify()
	if _, isShown := c.shown[named]; !isShown {
		return false
	}
	c.urgent = appendFrame(c.urgent, k, number, append(texts(uidOf(named)), more...))
	return true
}

func (c *Client) notice(k kind, named string, more []byte) {
	if c.conn != nil && c.isSynced { // else it is part of what is repeated
		c.send(k, 0, named, more)
	}
}

// Reserve states that a pod has a node from now on.
func (c *Client) Reserve(named, node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.reserved[named] = node
	c.notice(reserve, named, texts(node))
}

// Unreserve states that a pod has no node any more.
func (c *Client) Unreserve(named string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.reserved, named)
	c.notice(unreserve, named, nil)
}

// Refused states that a pod has found no node, and which rows of its answer refuse it.
func (c *Client) Refused(named string, a *Answer, rows []bool) {
	payload := append(binary.LittleEndian.AppendUint32(nil, a.table.generation), make([]byte, (len(rows)+7)/8)...)
	for row, is := range rows {
		if is {
			payload[4+row/8] |= 1 << (row % 8)
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.notice(refused, named, payload)
}

func (c *Client) handle(received frame) error {
	f := received.fields
	switch received.kind {
	case welcome:
		if theirs := f.integer(2); theirs != version {
			return fmt.Errorf("%w: version %d, want %d", errBadFrame, theirs, version)
		}
		for f.hasMore() {
			resolvable := f.u8() != 0
			c.reasons = append(c.reasons, Reason{f.text(), resolvable})
		}
	case table:
		next, err := c.table.with(&f)
		if err != nil {
			return err
		}
		c.table = next
	case answer:
		a, err := readAnswer(&f, c.table, c.reasons)
		if err != nil {
			return err
		}
		c.deliver(received.number, reply{answer: a})
	case code:
		c.deliver(received.number, reply{code: f.u8()})
	case ready:
		c.change(func() { c.isReady = f.u8() != 0 })
	case wake:
		var uids []string
		for f.hasMore() {
			uids = append(uids, f.text())
		}
		c.options.Wake(uids)
	case closing:
		return fmt.Errorf("the scheduler plugin closes the connection: %s", f.text())
	default:
		return fmt.Errorf("%w: kind %d", errBadFrame, received.kind)
	}
	return f.end()
}

func (c *Client) deliver(number uint32, r reply) {
	c.change(func() {
		if waiting := c.waiting[number]; waiting != nil {
			waiting <- r
		} else {
			c.isLate = false // it came after its deadline: Python is back
		}
		delete(c.waiting, number)
	})
}

// change changes the state, and states whether Python answers where that turns.
func (c *Client) change(state func()) {
	c.mu.Lock()
	before := c.answers()
	state()
	after := c.answers()
	if after {
		c.once.Do(func() { close(c.first) })
	}
	c.mu.Unlock()
	if before != after {
		c.options.Turned()
	}
}
