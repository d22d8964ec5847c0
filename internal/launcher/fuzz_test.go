package launcher

import (
	"bufio"
	"errors"
	"strings"
	"testing"
)

// A list has short numbers of requests of a bounded size, or is refused.
func FuzzReadList(f *testing.F) {
	f.Add("1 20\n22    7\n.\n")
	f.Add("a;b 3\n.\n")
	f.Add("1 -1\n.\n")
	f.Add(strings.Repeat("1", 100) + "\n.\n")
	f.Fuzz(func(t *testing.T, text string) {
		all, err := readList(bufio.NewReaderSize(strings.NewReader(text), maxLine))
		if len(all) > maxListed || err != nil && len(err.Error()) > 300 {
			t.Errorf("%d requests, %v", len(all), err)
		}
		for _, q := range all {
			if q.size < 0 || q.size > maxRequest || !idPattern.MatchString(q.id) {
				t.Errorf("%+v", q)
			}
		}
	})
}

// A port is one of those that gangs meet at, whatever a node says that it listens on.
func FuzzPort(f *testing.F) {
	f.Add("  0: 0100007F:733C 00000000:0000 0A 0\n", 1, 0)
	f.Add(": : : :\n  0: :ZZ x 0A\n", -5, 29500)
	f.Fuzz(func(t *testing.T, sockets string, attempt, before int) {
		port, err := Port(sockets, attempt, before)
		if err != nil && !errors.Is(err, ErrNoPort) || err == nil && (port < firstPort || port >= firstPort+ports || port == before) {
			t.Errorf("%d, %v", port, err)
		}
	})
}
