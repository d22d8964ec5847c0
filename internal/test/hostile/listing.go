package hostile

import (
	"fmt"
	"io"
	"strings"
)

// Listed answers a look for files with names, for the first pattern.
func Listed(names ...string) Tamper {
	var b strings.Builder
	b.WriteString("//#0\n")
	for _, name := range names {
		fmt.Fprintf(&b, "//- ./%s\n", name)
	}
	return Say([]byte(b.String()))
}

// ListedWithoutEnd answers with up to so many names, or until the client listens no more.
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
