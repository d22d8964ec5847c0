package hostile

import (
	"fmt"
	"io"
	"strings"
)

// Listed answers a search for files with these names, as matches of the first pattern.
func Listed(names ...string) Tamper {
	var b strings.Builder
	b.WriteString("//#0\n")
	for _, name := range names {
		fmt.Fprintf(&b, "//- ./%s\n", name)
	}
	return Say([]byte(b.String()))
}

// ListedWithoutEnd answers a search with up to count names, until the client stops reading.
func ListedWithoutEnd(count int, name func(i int) string) Tamper {
	return func(_ *Session, dst io.Writer, _ io.Reader) {
		io.WriteString(dst, "//#0\n")
		for i := range count {
			if _, err := fmt.Fprintf(dst, "//- ./%s\n", name(i)); err != nil {
				return
			}
		}
	}
}
