package output

import (
	"fmt"
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	var l Tail
	for i := range 5000 {
		fmt.Fprintf(&l, "line %d\n", i)
	}
	lines := strings.Split(l.String(), "\n")
	if len(lines) != tailLines || lines[len(lines)-1] != "line 4999" || lines[0] != "line 4980" {
		t.Errorf("got %q", lines)
	}
}
