package sshd

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gputrain/gputrain/internal/test/bubble"
)

func TestPipeCarriesBytesBothWays(t *testing.T) {
	a, b := Pipe()
	var wg sync.WaitGroup
	for i, ends := range [][2]net.Conn{{a, b}, {b, a}} {
		sent, got := sha256.New(), sha256.New()
		wg.Go(func() {
			src := rand.NewChaCha8([32]byte{byte(i)})
			buf := make([]byte, 200<<10)
			for left := 16 << 20; left > 0; {
				n := min(left, 1+int(src.Uint64()%uint64(len(buf))))
				src.Read(buf[:n])
				sent.Write(buf[:n])
				if _, err := ends[0].Write(buf[:n]); err != nil {
					t.Error(err)
					return
				}
				left -= n
			}
			// Only this direction may end: the other one is still in use.
			ends[0].(*pipeConn).out.closeWrite()
		})
		wg.Go(func() {
			if n, err := io.Copy(got, ends[1]); n != 16<<20 || err != nil {
				t.Errorf("read %d bytes, %v", n, err)
			}
		})
		defer func() {
			if !bytes.Equal(sent.Sum(nil), got.Sum(nil)) {
				t.Error("bytes differ")
			}
		}()
	}
	wg.Wait()
	a.Close()
	b.Close()
}

func TestPipeBuffersUnreadBytes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := Pipe()
		defer a.Close()
		defer b.Close()
		data := make([]byte, streamSize+10)
		for i := range data {
			data[i] = byte(i * 7)
		}
		a.SetWriteDeadline(time.Now().Add(time.Hour))
		n, err := a.Write(data)
		if n != streamSize || !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("wrote %d, %v; want the whole buffer, then a deadline", n, err)
		}
		a.SetWriteDeadline(time.Time{})
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := a.Write(data[n:]); err != nil {
				t.Error(err)
			}
			a.Close()
		})
		synctest.Wait() // the writer waits for room
		got, err := io.ReadAll(b)
		if err != nil || !bytes.Equal(got, data) {
			t.Errorf("read %d bytes, %v; want %d", len(got), err, len(data))
		}
		wg.Wait()
	})
}

func TestPipeClose(t *testing.T) {
	a, b := Pipe()
	if _, err := a.Write([]byte("last words")); err != nil {
		t.Fatal(err)
	}
	for range 2 { // Close is idempotent
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if got, err := io.ReadAll(b); string(got) != "last words" || err != nil {
		t.Errorf("after the peer's close: read %q, %v", got, err)
	}
	if _, err := b.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("writing to a closed peer: %v", err)
	}
	if _, err := a.Write([]byte("x")); !errors.Is(err, net.ErrClosed) {
		t.Errorf("writing to a closed end: %v", err)
	}
	if _, err := a.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("reading from a closed end: %v", err)
	}
}

func TestPipeCloseWakesWaiters(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := Pipe()
		quiet, _ := Pipe()
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := quiet.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
				t.Errorf("own read: %v", err)
			}
		})
		for range 2 { // the second waits for the first
			wg.Go(func() {
				if _, err := b.Write(make([]byte, 2*streamSize)); !errors.Is(err, io.ErrClosedPipe) {
					t.Errorf("peer's write: %v", err)
				}
			})
		}
		wg.Go(func() {
			if _, err := b.Read(make([]byte, 1)); err != io.EOF {
				t.Errorf("peer's read: %v", err)
			}
		})
		synctest.Wait()
		a.Close()
		quiet.Close()
		wg.Wait()
	})
}

func TestPipeDeadlines(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		a, b := Pipe()
		defer a.Close()
		defer b.Close()
		read := func() (int, error) { return a.Read(make([]byte, 8)) }

		start := time.Now()
		a.SetReadDeadline(start.Add(time.Minute))
		_, err := read()
		var timeout net.Error
		if !errors.As(err, &timeout) || !timeout.Timeout() {
			t.Errorf("read past its deadline: %v", err)
		}
		if waited := time.Since(start); waited != time.Minute {
			t.Errorf("waited %v", waited)
		}
		b.Write([]byte("late"))
		if _, err := read(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a deadline that has passed stays: %v", err)
		}
		a.SetDeadline(time.Time{})
		if n, err := read(); n != 4 || err != nil {
			t.Errorf("after the deadline was lifted: %d, %v", n, err)
		}

		// A deadline can move while a read waits for it.
		a.SetReadDeadline(time.Now().Add(time.Hour))
		start = time.Now()
		time.AfterFunc(time.Second, func() { a.SetReadDeadline(time.Now().Add(time.Second)) })
		if _, err := read(); !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) != 2*time.Second {
			t.Errorf("moved deadline: %v after %v", err, time.Since(start))
		}
		a.SetDeadline(time.Now().Add(-time.Second))
		if _, err := a.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("write past its deadline: %v", err)
		}
	})
}

func TestPipeDoesNotInterleaveWrites(t *testing.T) {
	a, b := Pipe()
	const size = 300 << 10
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if _, err := a.Write(bytes.Repeat([]byte{byte(i)}, size)); err != nil {
				t.Error(err)
			}
		})
	}
	for range 8 {
		got := make([]byte, size)
		if _, err := io.ReadFull(b, got); err != nil {
			t.Fatal(err)
		}
		if bytes.Count(got, got[:1]) != size {
			t.Error("two writes are mixed")
		}
	}
	wg.Wait()
	a.Close()
	b.Close()
}

// FuzzPipe writes and reads pieces of any size, and compares with a buffer.
func FuzzPipe(f *testing.F) {
	f.Add([]byte{1, 2, 3, 255, 128, 0, 7})
	f.Add(bytes.Repeat([]byte{200, 201}, 50))
	f.Fuzz(func(t *testing.T, steps []byte) {
		a, b := Pipe()
		defer a.Close()
		defer b.Close()
		var model bytes.Buffer
		next := byte(0)
		for _, step := range steps {
			n := int(step>>1) * 321
			if step&1 == 0 { // write, as far as it will not block
				piece := make([]byte, min(n, streamSize-model.Len()))
				for i := range piece {
					piece[i] = next
					next++
				}
				model.Write(piece)
				if _, err := a.Write(piece); err != nil {
					t.Fatal(err)
				}
			} else if model.Len() > 0 {
				got := make([]byte, n)
				got = got[:must(b.Read(got))]
				if want := model.Next(n); !bytes.Equal(got, want) {
					t.Fatalf("read %d bytes, want %d, or their values differ", len(got), len(want))
				}
			}
		}
	})
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func BenchmarkPipe(b *testing.B) {
	client, server := Pipe()
	b.SetBytes(32 << 10)
	var wg sync.WaitGroup
	wg.Go(func() {
		buf := make([]byte, 64<<10)
		for {
			if _, err := server.Read(buf); err != nil {
				return
			}
		}
	})
	data := make([]byte, 32<<10)
	for b.Loop() {
		client.Write(data)
	}
	client.Close()
	wg.Wait()
	server.Close()
}
