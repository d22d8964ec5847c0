package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/codec"
	"github.com/gputrain/gputrain/internal/overdue"
	"github.com/gputrain/gputrain/internal/sshd"
	"github.com/gputrain/gputrain/internal/test/bubble"
)

// A liar is a node whose answers the test chooses.
type liar struct {
	frameReader
	conn  io.ReadWriteCloser
	hello hello
}

// lies returns a client of a node that answers each hello with the result of answer, and then runs serve. It must run
// in a bubble.
func lies(t *testing.T, h Hello, answer func(hello) welcome, serve func(*liar)) (*Client, error) {
	c, err := Dial(t.Context(), func(context.Context) (io.ReadWriteCloser, error) {
		near, far := sshd.Pipe()
		go func() {
			defer far.Close()
			l := &liar{frameReader: newFrameReader(far), conn: far}
			head, err := l.next()
			if err != nil {
				return
			}
			payload, err := l.payload(head)
			if err != nil {
				return
			}
			if l.hello, _, err = decodeHello(payload); err != nil {
				return
			}
			l.say(join([]byte(nodePreamble), frame(frameWelcome, 0, encodeWire(answer(l.hello)))))
			serve(l)
		}()
		return near, nil
	}, h)
	if err == nil {
		t.Cleanup(func() { c.Close() })
	}
	return c, err
}

func (l *liar) say(b []byte) { _, _ = l.conn.Write(b) }

// honest returns the welcome of a node that has the function echo.
func honest(hello) welcome { return welcome{Instance: "i", Functions: []string{"echo"}} }

// calls reads frames until the client ends the connection, and runs answer for each call.
func (l *liar) calls(answer func(id uint64)) {
	for {
		head, err := l.next()
		if err != nil {
			return
		}
		if l.skip(head) != nil {
			return
		}
		if head.typ == frameCall {
			answer(head.id)
		}
	}
}

func resultOf(id uint64, text string) []byte {
	return frame(frameResult, id, opening{&resultHeader{}, body([]byte(text))}.appendTo(nil))
}

// A frame that breaks the protocol ends the client with an error that says so. Nothing of the frame is kept, and no
// call succeeds because of it.
func TestNodesThatBreakTheProtocol(t *testing.T) {
	item := func(id, n uint64, text string) []byte {
		return frame(frameItem, id, opening{&itemHeader{Number: n}, body([]byte(text))}.appendTo(nil))
	}
	large := codec.Body{Head: make([]byte, maxSmall+1)}
	begun := func(id uint64) []byte {
		return append(appendFrame(nil, frameResult, id, opening{&resultHeader{}, large}.bare(), 1), 'x')
	}
	for name, breach := range map[string]func(id uint64) []byte{
		"a result that was not asked for": func(id uint64) []byte { return resultOf(id+7, "x") },
		"a large one":                     func(id uint64) []byte { return begun(id + 7) },
		"a result twice":                  func(id uint64) []byte { return join(begun(id), begun(id)) },
		"a result that goes on":           func(id uint64) []byte { return frame(frameData, id, []byte("x")) },
		"more than was announced":         func(id uint64) []byte { return join(begun(id), frame(frameData, id, make([]byte, maxSmall+1))) },
		"a step of no call":               func(id uint64) []byte { return frame(frameStep, id+7, encodeWire(wireStep{})) },
		"a step that is none":             func(id uint64) []byte { return frame(frameStep, id, []byte("x")) },
		"an item without a stream":        func(id uint64) []byte { return item(id, 0, "x") },
		"an item of no call":              func(id uint64) []byte { return item(id+7, 0, "x") },
		"a credit without a stream":       func(id uint64) []byte { return frame(frameCredit, id, []byte{1}) },
		"a credit of no call":             func(id uint64) []byte { return frame(frameCredit, id+7, []byte{1}) },
		"a frame of the client's":         func(id uint64) []byte { return frame(frameCall, id, nil) },
		"a frame of a length":             func(uint64) []byte { return frameHead{maxPayload + 1, frameResult, 1}.append(nil) },
		"parts that overflow": func(id uint64) []byte {
			layout := appendLayout((&resultHeader{}).appendTo(nil), codec.Body{Head: []byte("h")})
			layout[len(layout)-1] = 3
			for range 3 {
				layout = append(layout, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f)
			}
			return frame(frameResult, id, layout)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, err := lies(t, Hello{}, honest, func(l *liar) { l.calls(func(id uint64) { l.say(breach(id)) }) })
				if err != nil {
					t.Fatal(err)
				}
				if _, err := c.Call(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrProtocol) {
					t.Errorf("the call: %v", err)
				}
				if _, err := c.Call(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrProtocol) {
					t.Errorf("the next: %v", err)
				}
			})
		})
	}
}

// A second result of a call breaks the protocol.
func TestResultAfterTheEnd(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, err := lies(t, Hello{}, honest, func(l *liar) {
			l.calls(func(id uint64) { l.say(join(resultOf(id, "first"), resultOf(id, "second"))) })
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil || string(got.Head) != "first" {
			t.Errorf("%q, %v", got.Head, err)
		}
		synctest.Wait()
		if _, err := c.Call(t.Context(), Request{Function: "echo"}); !errors.Is(err, ErrProtocol) {
			t.Errorf("%v", err)
		}
	})
}

// A result comes before the items of its stream if the connection is cut between the two. The node, which has no
// acknowledgement of it, sends it again over the next connection; twice over one connection breaks the protocol.
func TestResultAgainBeforeTheLastItem(t *testing.T) {
	for name, cut := range map[string]bool{"over the next connection": true, "over one connection": false} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				result := func(id uint64) []byte {
					return frame(frameResult, id, opening{&resultHeader{Items: 1}, body([]byte("it"))}.appendTo(nil))
				}
				item := func(id uint64) []byte {
					return frame(frameItem, id, opening{&itemHeader{}, body([]byte("last"))}.appendTo(nil))
				}
				c, err := lies(t, Hello{}, func(h hello) welcome {
					w := honest(h)
					for _, id := range h.Open {
						w.Known, w.Streams = append(w.Known, id), append(w.Streams, streamState{ID: id})
					}
					return w
				}, func(l *liar) {
					for _, id := range l.hello.Open {
						l.say(join(result(id), item(id)))
					}
					l.calls(func(id uint64) {
						l.say(result(id))
						if cut {
							synctest.Wait() // until the client has it
							l.conn.Close()
						} else {
							l.say(join(result(id), item(id)))
						}
					})
				})
				if err != nil {
					t.Fatal(err)
				}
				s := NewStream()
				got, err := c.Call(t.Context(), Request{Function: "echo", Stream: s})
				if !cut {
					if !errors.Is(err, ErrProtocol) {
						t.Error(err)
					}
					return
				}
				if err != nil {
					t.Fatal(err)
				}
				if last, ok := s.Receive(nil); string(got.Head) != "it" || !ok || string(last.Head) != "last" {
					t.Errorf("%q, and the item %q, %t", got.Head, last.Head, ok)
				}
			})
		})
	}
}

// A node may answer a call that the client gave up, because it may not know that yet.
func TestAnswerToACallThatWasGivenUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var late uint64
		c, err := lies(t, Hello{Grace: time.Second}, honest, func(l *liar) {
			l.calls(func(id uint64) {
				if late == 0 {
					late = id
					return
				}
				l.say(join(resultOf(late, "late"), resultOf(id, "it")))
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := c.Call(ctx, Request{Function: "echo"}); !errors.Is(err, ErrAbandoned) {
			t.Errorf("%v", err)
		}
		if got, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil || string(got.Head) != "it" {
			t.Errorf("%q, %v", got.Head, err)
		}
	})
}

// A welcome that lies, for example about open calls, is refused before it takes much memory.
func TestWelcomesThatLie(t *testing.T) {
	many := make([]heldCall, mostHeld+1)
	for i := range many {
		many[i] = heldCall{ID: uint64(i), Header: (&callHeader{Function: "f"}).appendTo(nil)}
	}
	for name, w := range map[string]welcome{
		"known":          {Known: []uint64{1}},
		"streams":        {Streams: []streamState{{ID: 1}}},
		"held, unasked":  {Held: many[:1]},
		"an instance id": {Instance: strings.Repeat("i", mostInstance+1)},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				if _, err := lies(t, Hello{}, func(hello) welcome { return w }, func(*liar) {}); !errors.Is(err, ErrProtocol) {
					t.Error(err)
				}
			})
		})
	}
	for name, w := range map[string]welcome{
		"too many held": {Held: many},
		"one twice":     {Held: []heldCall{many[0], many[0]}},
		"no header":     {Held: []heldCall{{ID: 1}}},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				if _, err := lies(t, Hello{Adopt: true}, func(hello) welcome { return w }, func(*liar) {}); !errors.Is(err, ErrProtocol) {
					t.Error(err)
				}
			})
		})
	}
}

// A result or item above the limit fails its call only, and allocates little memory.
func TestResultBytes(t *testing.T) {
	const most = 1 << 20
	announced := func(id uint64, typ frameType, header payload) []byte {
		layout := appendLayout(header.appendTo(nil), codec.Body{Head: []byte("h")})
		layout[len(layout)-1] = 1
		layout = append(layout, 0xff, 0xff, 0xff, 0xff, 0x7f) // 32 GiB
		return frame(typ, id, append(layout, 'h'))
	}
	for name, lie := range map[string]func(id uint64) []byte{
		"result": func(id uint64) []byte {
			return join(announced(id, frameResult, &resultHeader{}), frame(frameData, id, make([]byte, maxPayload)), frame(frameData, id, make([]byte, maxPayload)))
		},
		"item": func(id uint64) []byte {
			return join(announced(id, frameItem, &itemHeader{}), frame(frameItemData, id, make([]byte, maxPayload)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				first := true
				c, err := lies(t, Hello{ResultBytes: most}, honest, func(l *liar) {
					l.calls(func(id uint64) {
						if first {
							first = false
							l.say(lie(id))
						} else {
							l.say(resultOf(id, "good"))
						}
					})
				})
				if err != nil {
					t.Fatal(err)
				}
				var before, after runtime.MemStats
				runtime.ReadMemStats(&before)
				s := NewStream()
				s.CloseSend()
				_, err = c.Call(t.Context(), Request{Function: "echo", Stream: s})
				if !errors.Is(err, ErrTooLarge) || !strings.Contains(err.Error(), fmt.Sprint(most)) {
					t.Errorf("%v", err)
				}
				if got, err := c.Call(t.Context(), Request{Function: "echo"}); err != nil || string(got.Head) != "good" {
					t.Errorf("the next call: %q, %v", got.Head, err)
				}
				runtime.ReadMemStats(&after)
				// The lying node is in the same process, so its own allocations count too.
				if grew := int64(after.TotalAlloc) - int64(before.TotalAlloc); grew > 64<<20 {
					t.Errorf("%d bytes were allocated", grew)
				}
			})
		})
	}
}

// A call whose node does not answer long after the Timeout is overdue, but not if the node was unreachable.
func TestTimeoutThatTheNodeDoesNotKeep(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, err := lies(t, Hello{Grace: time.Second}, honest, func(l *liar) { l.calls(func(uint64) {}) })
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		_, err = c.Call(t.Context(), Request{Function: "echo", Timeout: time.Minute})
		if took := time.Since(begun); !errors.Is(err, ErrOverdue) || took != time.Minute+time.Second+overdue.Grace {
			t.Errorf("after %v: %v", took, err)
		}
	})
	bubble.Test(t, func(t *testing.T) {
		var up atomic.Bool
		begun := time.Now()
		time.AfterFunc(time.Hour, func() { up.Store(true) })
		c, err := lies(t, Hello{Reachable: up.Load}, honest, func(l *liar) {
			l.calls(func(id uint64) {
				time.Sleep(time.Hour + time.Minute)
				l.say(resultOf(id, "it"))
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		got, err := c.Call(t.Context(), Request{Function: "echo", Timeout: time.Minute})
		if err != nil || string(got.Head) != "it" {
			t.Errorf("after %v: %q, %v", time.Since(begun), got.Head, err)
		}
	})
}

// The size of a reported failure is limited, and its function is the one that was called.
func TestFailuresThatLie(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		long := strings.Repeat("x", 1<<20)
		known := make([]string, 100_000)
		for i := range known {
			known[i] = "io.EOF"
		}
		failure := &wireError{Kind: "kindness", Function: "another", Message: long, Type: long, Stack: long, TimedOut: true, Known: known}
		c, err := lies(t, Hello{}, honest, func(l *liar) {
			l.calls(func(id uint64) {
				l.say(frame(frameResult, id, opening{&resultHeader{Error: failure}, codec.Body{}}.appendTo(nil)))
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = c.Call(t.Context(), Request{Function: "echo"})
		var e *RemoteError
		if !errors.As(err, &e) {
			t.Fatal(err)
		}
		if len(e.Message) > maxErrorText+10 || len(e.Type) > maxErrorText+10 || len(e.Stack) > maxErrorText+10 || len(e.known) > mostKnown || e.Kind != Failed || e.TimedOut || e.Function != "echo" {
			t.Errorf("%d %d %d bytes, %d known, kind %q, timed out %v, function %q", len(e.Message), len(e.Type), len(e.Stack), len(e.known), e.Kind, e.TimedOut, e.Function)
		}
	})
}

// FuzzResults feeds arbitrary answers to a client with open calls. The client must not panic, and must not keep more
// bytes than the limit and the stream's window allow.
func FuzzResults(f *testing.F) {
	const most = 1 << 10
	small := func(id uint64) []byte { return resultOf(id, "it") }
	header := func(size byte) []byte { return append((&resultHeader{}).appendTo(nil), size, 0) }
	item := func(n uint64, end bool) []byte {
		return frame(frameItem, 2, opening{&itemHeader{n, end}, body([]byte("it"))}.appendTo(nil))
	}
	failed := resultHeader{Items: 3, Error: &wireError{Kind: Panic, Known: []string{"io.EOF"}}}
	f.Add(join(small(1), small(1)))
	f.Add(join(frame(frameResult, 1, append(header(5), "12"...)), frame(frameData, 1, []byte("345"))))
	f.Add(join(item(0, false), item(1, false), item(2, true), frame(frameResult, 2, opening{&resultHeader{Items: 2}, codec.Body{}}.appendTo(nil))))
	f.Add(join(frame(frameResult, 2, opening{&failed, codec.Body{}}.appendTo(nil)), item(0, false)))
	f.Add(join(frame(frameItem, 2, append((&itemHeader{}).appendTo(nil), 9, 0, 'x')), frame(frameItemData, 2, []byte("12345678"))))
	f.Add(join(frame(frameCredit, 2, []byte{0}), frame(framePong, 1, nil), frame(frameResult, 1, append(header(0), 0xff, 0xff, 0x7f)), small(3)))
	f.Add(join(frame(frameStep, 1, encodeWire(wireStep{N: -1, Rank: -7, Values: map[string]float64{"": 1}})), frame(frameStep, 2, nil)))
	f.Fuzz(func(t *testing.T, b []byte) {
		in, node := io.Pipe()
		c := &Client{hello: Hello{ResultBytes: most}, calls: map[uint64]*call{}, earlier: map[uint64]*call{}, held: map[uint64]bool{}, stop: func() {}}
		calls := []*call{{Request: Request{ID: 1, Function: "f"}}, {Request: Request{ID: 2, Function: "g", Stream: NewStream()}, hold: true}}
		for _, call := range calls {
			call.done = make(chan struct{})
			c.calls[call.ID] = call
		}
		l := newLink(duplex{in, nopWriteCloser{in}}, "")
		defer l.close()
		go func() {
			_, _ = node.Write(b)
			_ = node.Close()
		}()
		if err := newReceiver(c, l).run(); err == nil {
			t.Fatal("it ended without a reason")
		}
		for _, call := range calls {
			if call.result.Size() > most {
				t.Fatalf("a result of %d bytes", call.result.Size())
			}
		}
		if s := calls[1].Stream; len(s.queue) > StreamItems || s.queued > StreamBytes {
			t.Fatalf("%d items of %d bytes", len(s.queue), s.queued)
		}
	})
}
