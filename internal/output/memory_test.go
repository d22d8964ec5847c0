package output

import (
	"bytes"
	"errors"
	"io"
	"os"
	"slices"
	"testing"

	"github.com/gputrain/gputrain/providers/driver"
)

// TestMemoryOfAllTasks runs two tasks. The first takes all memory, so the second keeps 4 KiB of each stream, until the
// first returns its share.
func TestMemoryOfAllTasks(t *testing.T) {
	results := NewResults(NewDir("p", t.TempDir(), noState), Limits{Stream: 1 << 20, StreamMemory: 30_000, Memory: 50_000})
	text := bytes.Repeat([]byte("0123456789"), 4000)
	run := func(share *Share, attempt string) (inMemory []int) {
		stdout, stderr := results.Spools(share, attempt, nil, nil)
		for _, s := range []*Spool{stdout, stderr} {
			for part := range slices.Chunk(text, 3000) {
				s.Write(part)
			}
			kept, err := s.Close()
			if err != nil {
				t.Fatal(err)
			}
			if all, err := os.ReadFile(kept.File); err != nil || !bytes.Equal(all, text) || !bytes.HasPrefix(text, kept.Head) || kept.Cut {
				t.Errorf("the file has %d bytes of %d, memory %d, %v", len(all), len(text), len(kept.Head), err)
			}
			inMemory = append(inMemory, len(kept.Head))
		}
		return inMemory
	}
	var first, second Share
	if got := run(&first, "t1-a1"); got[0] != 30_000 || got[1] != 50_000-30_000+2*leastKept {
		t.Errorf("the first task keeps %v", got)
	}
	if got := run(&second, "t2-a1"); got[0] != leastKept || got[1] != leastKept {
		t.Errorf("the second task keeps %v", got)
	}
	second.Return()
	first.Return()
	first.Return()
	if got := run(&second, "t2-a2"); got[0] != 30_000 {
		t.Errorf("once there is room again, the second task keeps %v", got)
	}
}

// TestPlaybackOfAttempts reads two attempts, one written before and one written meanwhile.
func TestPlaybackOfAttempts(t *testing.T) {
	results := NewResults(NewDir("p", t.TempDir(), noState), Limits{Stream: 1000, StreamMemory: 10, Memory: 100})
	var playback Playback
	first, _ := results.Spools(&Share{}, "t1-a1", nil, nil)
	playback.Add(first)
	early := playback.Reader()
	first.Write([]byte("one, "))
	b := make([]byte, 100)
	if n, err := early.Read(b); string(b[:n]) != "one, " || err != nil {
		t.Errorf("read %q, %v", b[:n], err)
	}
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(early)
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	first.Write([]byte("two, "))
	if _, err := first.Close(); err != nil {
		t.Fatal(err)
	}
	second, _ := results.Spools(&Share{}, "t1-a2", nil, nil)
	playback.Add(second)
	second.Write([]byte("and then three"))
	playback.End()
	if got := <-read; got != "two, and then three" {
		t.Errorf("the reader has %q", got)
	}
	kept, err := second.Close()
	if err != nil {
		t.Fatal(err)
	}
	var again Playback
	again.Add(Reopen(kept))
	again.End()
	if all, err := io.ReadAll(again.Reader()); string(all) != "and then three" || err != nil {
		t.Errorf("another program reads %q, %v", all, err)
	}
	long, _ := results.Spools(&Share{}, "t2-a1", nil, nil)
	var cut Playback
	cut.Add(long)
	long.Write(make([]byte, 2000))
	cut.End()
	if all, err := io.ReadAll(cut.Reader()); len(all) != 1000 || !errors.Is(err, driver.ErrLimit) {
		t.Errorf("%d bytes of a stream that was cut, %v", len(all), err)
	}
	if kept, err := long.Close(); err != nil || !kept.Cut || kept.Bytes != 2000 {
		t.Errorf("kept %d bytes, cut: %v, %v", kept.Bytes, kept.Cut, err)
	}
}
