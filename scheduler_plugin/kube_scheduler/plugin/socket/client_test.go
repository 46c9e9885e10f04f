package socket

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// python is the other side of the socket, as a test writes it.
type python struct {
	t        *testing.T
	listener net.Listener
	client   *Client

	mu     sync.Mutex
	pods   map[string]string
	woken  chan []string
	turned chan struct{}
	errs   chan string
}

// peer is one connection with it.
type peer struct {
	net.Conn
	t    *testing.T
	from *bufio.Reader
}

const (
	u = "u default/u"
	v = "v default/v"
)

func begin(t *testing.T, patience time.Duration, pods ...string) *python {
	t.Helper()
	path := filepath.Join(t.TempDir(), "plugin.sock")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	p := &python{t: t, listener: listener, pods: map[string]string{},
		woken: make(chan []string, 9), turned: make(chan struct{}, 99), errs: make(chan string, 99)}
	for _, named := range pods {
		p.pods[named] = "{}"
	}
	p.client = New(Options{
		Path: path, Profile: "koord", Minor: "36", Deadline: 50 * time.Millisecond, Patience: patience,
		All: func() (uids []string) {
			p.mu.Lock()
			defer p.mu.Unlock()
			for uid := range p.pods {
				uids = append(uids, uid)
			}
			return uids
		},
		Show: func(named string) []byte {
			p.mu.Lock()
			defer p.mu.Unlock()
			return []byte(p.pods[named])
		},
		Wake:   func(uids []string) { p.woken <- uids },
		Turned: func() { p.turned <- struct{}{} },
		Log:    func(err error, _ string) { p.errs <- err.Error() },
	})
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { p.client.Run(ctx); close(ended) }()
	t.Cleanup(func() { end(); listener.Close(); <-ended })
	return p
}

func (p *python) set(uid, body string) {
	p.mu.Lock()
	p.pods[uid] = body
	p.mu.Unlock()
	p.client.Changed(uid, false)
}

func (p *python) drop(uid string) {
	p.mu.Lock()
	delete(p.pods, uid)
	p.mu.Unlock()
	p.client.Changed(uid, false)
}

func (p *python) accept() *peer {
	p.t.Helper()
	conn, err := p.listener.Accept()
	if err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { conn.Close() })
	return &peer{conn, p.t, bufio.NewReader(conn)}
}

// ready accepts a connection and states that questions are answered; it returns the frames up to SYNCED.
func (p *python) ready(nodes ...string) (*peer, []frame) {
	p.t.Helper()
	c := p.accept()
	c.expect(hello)
	c.send(welcome, 0, append([]byte{version, 0, 0}, append(texts("hot"), append([]byte{1}, texts("mid")...)...)...))
	payload := binary.LittleEndian.AppendUint32(nil, 7)
	for row, node := range nodes {
		payload = append(binary.LittleEndian.AppendUint32(payload, uint32(row)), texts(node)...)
	}
	c.send(table, 0, payload)
	var shown []frame
	for {
		f := c.next()
		if f.kind == synced {
			break
		}
		shown = append(shown, f)
	}
	c.send(ready, 0, []byte{1})
	<-p.turned
	return c, shown
}

func (c *peer) next() frame {
	c.t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	f, err := readFrame(c.from)
	if err != nil {
		c.t.Fatal(err)
	}
	return f
}

func (c *peer) expect(k kind, texts ...string) frame {
	c.t.Helper()
	f := c.next()
	if f.kind != k {
		c.t.Fatalf("a frame of kind %d, want %d", f.kind, k)
	}
	for _, want := range texts {
		if text := f.fields.text(); text != want {
			c.t.Fatalf("the text %q, want %q", text, want)
		}
	}
	return f
}

func (c *peer) send(k kind, number uint32, payload []byte) {
	c.t.Helper()
	if _, err := c.Write(appendFrame(nil, k, number, payload)); err != nil {
		c.t.Error(err)
	}
}

func answerOf(generation uint32, codes, scores string) []byte {
	payload := binary.LittleEndian.AppendUint32(nil, generation)
	payload = binary.LittleEndian.AppendUint32(payload, uint32(len(codes)))
	payload = append(payload, 0xFF, 0xFF, 0xFF, 0xFF, 2, hasCodes|hasScores)
	payload = append(payload, codes+scores...)
	return append(append(payload, 2), texts("no Mid left")...)
}

// respond answers the next question, without failing the test in its goroutine.
func (c *peer) respond(payload []byte) {
	go func() {
		if f, err := readFrame(c.from); err == nil {
			if f.kind == pod {
				f, _ = readFrame(c.from)
			}
			_, _ = c.Write(appendFrame(nil, answer, f.number, payload))
		}
	}()
}

func TestAnAnswerIsLookedUpByNode(t *testing.T) {
	p := begin(t, 0)
	c, _ := p.ready("n0", "n1", "n2")
	p.set(u, "{}")
	c.respond(answerOf(7, "\x00\x01\x02", "\x05\x00\x00"))
	a, err := p.client.Ask(u)
	if err != nil {
		t.Fatal(err)
	}
	for node, want := range map[string]byte{"n0": 0, "n1": 1, "n2": 2, "another": 2} {
		if _, code := a.Code(node); code != want {
			t.Errorf("%s has the code %d, want %d", node, code, want)
		}
	}
	if a.Score("n0") != 5 || a.Score("another") != 0 || a.PassesAll() {
		t.Error("wrong scores")
	}
	if hot, mid := a.Reason(1, 1), a.Reason(2, 2); hot != (Reason{"hot", false}) || mid != (Reason{"no Mid left", true}) {
		t.Errorf("reasons %v and %v", hot, mid)
	}
}

func TestAChangedPodIsShownBeforeTheQuestionAboutIt(t *testing.T) {
	p := begin(t, 0)
	c, _ := p.ready()
	p.set(u, `{"a":1}`)
	go func() { _, _ = p.client.Ask(u) }()
	if f := c.expect(pod); string(f.fields.rest) != `{"a":1}` {
		t.Errorf("the pod %s", f.fields.rest)
	}
	c.expect(ask, "u")
	p.drop(u)
	c.expect(gone, "u", "default/u")
}

func TestAPodIsShownAgainWhereItDiffers(t *testing.T) {
	p := begin(t, 0)
	c, _ := p.ready()
	for _, body := range []string{`{"a":1}`, `{"a":2}`} {
		p.set(u, body)
		if f := c.expect(pod); string(f.fields.rest) != body {
			t.Errorf("the pod %s, want %s", f.fields.rest, body)
		}
		p.set(u, body)
	}
	p.drop(u)
	c.expect(gone, "u", "default/u")
}

func TestANewConnectionGetsAllPodsAndReservations(t *testing.T) {
	p := begin(t, 0, u, v)
	c, shown := p.ready()
	if len(shown) != 2 {
		t.Fatalf("%d frames, want two pods", len(shown))
	}
	p.client.Reserve(u, "n0")
	c.expect(reserve, "u", "n0")
	p.client.Reserve(v, "n1")
	c.expect(reserve, "v", "n1")
	p.client.Unreserve(v)
	c.expect(unreserve, "v")
	c.Close()
	<-p.turned
	_, shown = p.ready()
	if last := shown[len(shown)-1]; len(shown) != 3 || last.kind != reserve || last.fields.text() != "u" {
		t.Errorf("repeated %v, want two pods and the reservation", shown)
	}
}

func TestOneQuestionPaysTheDeadlineAndALateAnswerEndsIt(t *testing.T) {
	p := begin(t, 0, u)
	c, _ := p.ready("n0")
	began := time.Now()
	if _, err := p.client.Ask(u); !errors.Is(err, ErrAway) {
		t.Fatal(err)
	}
	if waited := time.Since(began); waited < 50*time.Millisecond {
		t.Errorf("waited %s", waited)
	}
	<-p.turned
	began = time.Now()
	for range 100 {
		if _, err := p.client.Ask(u); !errors.Is(err, ErrAway) {
			t.Fatal(err)
		}
	}
	if waited := time.Since(began); waited > 40*time.Millisecond {
		t.Errorf("100 further questions waited %s", waited)
	}
	late := c.expect(ask, "u")
	c.send(answer, late.number, answerOf(7, "\x00", "\x01"))
	<-p.turned
	c.respond(answerOf(7, "\x00", "\x01"))
	if _, err := p.client.Ask(u); err != nil {
		t.Error(err)
	}
}

func TestWrongFramesEndTheConnection(t *testing.T) {
	for what, wrong := range map[string][]byte{
		"unknown kind":       appendFrame(nil, 99, 0, nil),
		"torn answer":        appendFrame(nil, answer, 1, []byte{7, 0, 0}),
		"another generation": appendFrame(nil, answer, 1, answerOf(8, "\x00", "\x00")),
		"row beyond bound":   appendFrame(nil, table, 0, append([]byte{8, 0, 0, 0, 0, 0, 1, 0}, texts("n")...)),
		"too long":           {0, 0, 0, 0xFF, byte(answer), 0, 0, 0, 0, 0, 0, 0},
		"reserved byte":      {0, 0, 0, 0, byte(answer), 1, 0, 0, 0, 0, 0, 0},
		"closing":            appendFrame(nil, closing, 0, texts("why")),
	} {
		t.Run(what, func(t *testing.T) {
			p := begin(t, 0)
			c, _ := p.ready("n0")
			if _, err := c.Write(wrong); err != nil {
				t.Fatal(err)
			}
			<-p.turned
			if text := <-p.errs; text == "" || strings.Contains(text, "EOF") {
				t.Errorf("the error %q", text)
			}
			p.ready("n0")
		})
	}
}

func TestAnotherVersionIsRefused(t *testing.T) {
	p := begin(t, 0)
	c := p.accept()
	c.expect(hello)
	c.send(welcome, 0, []byte{9, 0})
	if text := <-p.errs; !strings.Contains(text, "version 9, want 1") {
		t.Errorf("the error %q", text)
	}
}

func TestTheFirstQuestionWaitsForTheStart(t *testing.T) {
	p := begin(t, 5*time.Second, u)
	asked := make(chan error, 1)
	go func() { _, err := p.client.Ask(u); asked <- err }()
	time.Sleep(20 * time.Millisecond)
	c, _ := p.ready("n0")
	question := c.expect(ask, "u")
	c.send(answer, question.number, answerOf(7, "\x00", "\x01"))
	if err := <-asked; err != nil {
		t.Error(err)
	}
}

func TestRefusedRowsAreBits(t *testing.T) {
	p := begin(t, 0)
	c, _ := p.ready("n0", "n1", "n2")
	p.set(u, "{}")
	c.respond(answerOf(7, "\x00\x01\x02", "\x05\x00\x00"))
	a, err := p.client.Ask(u)
	if err != nil {
		t.Fatal(err)
	}
	p.client.Refused(u, a, []bool{true, false, true, false, false, false, false, false, false, true})
	f := c.expect(refused, "u")
	if f.fields.u32() != 7 || f.fields.u8() != 0b101 || f.fields.u8() != 0b10 {
		t.Error("wrong rows")
	}
	c.send(wake, 0, texts("u", "v"))
	if uids := <-p.woken; len(uids) != 2 {
		t.Errorf("woken %v", uids)
	}
}

func TestManyGoroutinesAskAndNotice(t *testing.T) {
	p := begin(t, 0)
	c, _ := p.ready("n0")
	go func() {
		for {
			f, err := readFrame(c.from)
			if err != nil {
				return
			}
			if f.kind == check {
				_, _ = c.Write(appendFrame(nil, code, f.number, []byte{3}))
			}
		}
	}()
	var all sync.WaitGroup
	for range 8 {
		all.Add(1)
		go func() {
			defer all.Done()
			for range 50 {
				p.set(u, "{}")
				p.client.Reserve(u, "n0")
				if got, err := p.client.Check(u, 0, []string{"v"}); err != nil && !errors.Is(err, ErrAway) || err == nil && got != 3 {
					t.Errorf("code %d, %v", got, err)
				}
				p.client.Changed(u, true)
				p.drop(u)
			}
		}()
	}
	all.Wait()
}
