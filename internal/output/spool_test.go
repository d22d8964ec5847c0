package output

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

func TestSpoolSpills(t *testing.T) {
	const head = 1 << 20
	dir := NewDir("p", t.TempDir(), noState)
	s, _ := NewResults(dir, Limits{Stream: 1 << 30, StreamMemory: head, Memory: 1 << 30}).Spools(&Share{}, "t1-a1", nil, nil)
	var whole bytes.Buffer
	for i := range 300 {
		p := []byte(strings.Repeat(fmt.Sprintf("%d ", i), 2000))
		whole.Write(p)
		if _, err := s.Write(p); err != nil {
			t.Fatal(err)
		}
		if i == 50 {
			if _, err := os.Stat(dir.Path() + "/t1-a1"); err == nil {
				t.Error("the folder was made before it was needed")
			}
		}
	}
	kept, err := s.Close()
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(kept.File)
	if err != nil || !bytes.Equal(got, whole.Bytes()) || kept.Bytes != int64(whole.Len()) || kept.Cut {
		t.Errorf("the file has %d of %d bytes, counted %d, %v", len(got), whole.Len(), kept.Bytes, err)
	}
	if !bytes.Equal(kept.Head, whole.Bytes()[:head]) {
		t.Errorf("kept %d bytes", len(kept.Head))
	}
}
