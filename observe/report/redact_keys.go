package report

import "bytes"

// A keyMark is the first or the last line of a private key.
type keyMark struct {
	at, end int
	begins  bool
}

// keyMarks returns where private keys begin and end.
func keyMarks(p []byte) (marks []keyMark) {
	for i := 0; ; {
		k := bytes.Index(p[i:], []byte("-----"))
		if k < 0 {
			return marks
		}
		i += k
		head := p[i:min(len(p), i+80)]
		switch end := bytes.Index(head, []byte("PRIVATE KEY-----")); {
		case end < 0:
			i += len("-----")
			continue
		case bytes.HasPrefix(head, []byte("-----BEGIN")):
			marks = append(marks, keyMark{i, i + end + len("PRIVATE KEY-----"), true})
		case bytes.HasPrefix(head, []byte("-----END")):
			marks = append(marks, keyMark{i, i + end + len("PRIVATE KEY-----"), false})
		default:
			i += len("-----")
			continue
		}
		i = marks[len(marks)-1].end
	}
}

// keys returns the lines of private keys. Their first and last lines stay, and so does what is around the lines, such as the
// quotes of JSON.
func (r *redactor) keys(p []byte) (found []match) {
	inside, from, until := r.key, 0, r.keyLeft
	lines := func(to int) {
		if inside {
			found = append(found, keyLines(p, from, min(to, until))...)
		}
	}
	for _, m := range keyMarks(p) {
		lines(m.at)
		found = append(found, match{m.at, m.end, m.end})
		inside, from, until = m.begins, m.end, m.end+longestKey
	}
	lines(len(p))
	return found
}

// keyLines returns the runs of base64 that are long enough for a line of a key, or end as its last line does.
func keyLines(p []byte, from, to int) (found []match) {
	for from < to {
		if !isBase64(p[from]) {
			from++
			continue
		}
		begin := from
		for from < len(p) && isBase64(p[from]) {
			from++
		}
		// Go's JSON, and most other formats, write a line end in a text as \n.
		if begin > 0 && p[begin-1] == '\\' && from > begin+1 {
			begin++
		}
		if from-begin >= 16 || from-begin >= 4 && p[from-1] == '=' {
			found = append(found, match{begin, begin, from})
		}
	}
	return found
}

func isBase64(c byte) bool {
	return c == '+' || c == '/' || c == '=' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
