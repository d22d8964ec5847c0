package report

import (
	"bytes"
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/gputrain/gputrain/internal/credential"
)

// A match is a secret from begin to end, which is known by what is before it, from from on. If begin is end, there is nothing to
// replace, but the text from from to end has to stay together.
type match struct{ from, begin, end int }

// scan returns the secrets in a text, by their beginnings.
func (r *redactor) scan(p []byte) (found []match) {
	for _, secret := range r.known {
		for i := 0; ; {
			k := bytes.Index(p[i:], secret)
			if k < 0 {
				break
			}
			i += k + len(secret)
			found = append(found, match{i - len(secret), i - len(secret), i})
		}
	}
	lower := lowered(p)
	for _, a := range anchors {
		for i := 0; ; {
			k := bytes.Index(lower[i:], []byte(a.word))
			if k < 0 {
				break
			}
			i += k
			if m, ok := a.find(p, i, i+len(a.word)); ok {
				found = append(found, m)
			}
			i += len(a.word)
		}
	}
	found = append(found, r.keys(p)...)
	slices.SortFunc(found, func(a, b match) int { return cmp.Or(cmp.Compare(a.begin, b.begin), cmp.Compare(b.end, a.end)) })
	return found
}

// lowered returns a text with the letters of ASCII in lower case.
func lowered(p []byte) []byte {
	lower := bytes.Clone(p)
	for i, c := range lower {
		if 'A' <= c && c <= 'Z' {
			lower[i] = c + 'a' - 'A'
		}
	}
	return lower
}

// An anchor is a word beside which secrets are. find looks at one place of it, from begin to end.
type anchor struct {
	word string
	find func(p []byte, begin, end int) (match, bool)
}

var anchors = []anchor{
	{"bearer", afterScheme}, {"basic", afterScheme},
	{"authorization", header}, {"x-api-key", header},
	{"key", assigned}, {"token", assigned}, {"secret", assigned}, {"passw", assigned}, {"passphrase", assigned}, {"credential", assigned}, {"sshpass", assigned}, {"_pat", assigned}, {"_pass", assigned}, {"_pwd", assigned},
	{"sk-", prefixed}, {"ghp_", prefixed}, {"gho_", prefixed}, {"ghs_", prefixed}, {"github_pat_", prefixed}, {"glpat-", prefixed}, {"hf_", prefixed}, {"xoxb-", prefixed},
	{"xoxp-", prefixed}, {"aiza", prefixed}, {"rpa_", prefixed}, {"eyj", prefixed},
	{"akia", accessKey}, {"asia", accessKey},
	{"://", userinfo},
}

// isValue reports whether a byte can be part of a secret that is written without quotes.
func isValue(c byte) bool { return c > ' ' && strings.IndexByte("\"'<>&\\,;`", c) < 0 }

func isWord(c byte) bool {
	return c == '_' || c == '-' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}

// value returns the end of the value that begins at begin.
func value(p []byte, begin int) int {
	end := begin
	for end < len(p) && isValue(p[end]) {
		end++
	}
	return end
}

// afterScheme finds the token of "Bearer abc".
func afterScheme(p []byte, begin, end int) (match, bool) {
	at := end
	for at < len(p) && at < end+4 && p[at] == ' ' {
		at++
	}
	last := value(p, at)
	if at == end || last-at < 8 || !bytes.ContainsAny(p[at:last], "0123456789=._") {
		return match{}, false
	}
	return match{begin, at, last}, true
}

// header finds the value of a header, which may have spaces.
func header(p []byte, begin, end int) (match, bool) {
	at := skip(p, end, " \\\"':=[")
	if !bytes.ContainsAny(p[end:at], ":=") {
		return match{}, false
	}
	last := at
	for last < len(p) && last < at+longestSecret && (p[last] == ' ' || isValue(p[last])) {
		last++
	}
	return match{begin, at, last}, last-at >= shortestSecret
}

// assigned finds the value of a name that is a credential's: in "HF_TOKEN=abc", "--api-key abc" and {"password": "abc"}.
func assigned(p []byte, begin, end int) (match, bool) {
	for begin > 0 && end-begin < 128 && isWord(p[begin-1]) {
		begin--
	}
	for end < len(p) && end-begin < 256 && isWord(p[end]) {
		end++
	}
	flag := bytes.HasPrefix(p[begin:end], []byte("-"))
	at := skip(p, end, " \\\"'")
	if at < len(p) && (p[at] == ':' || p[at] == '=') {
		at = skip(p, at+1, " \\\"'=")
	} else if !flag || at == end {
		return match{}, false
	}
	last := value(p, at)
	if isQuoted := at > 0 && (p[at-1] == '"' || p[at-1] == '\''); !isQuoted { // it may be a number of JSON
		last = at + len(bytes.TrimRight(p[at:last], "}]"))
		if _, err := strconv.ParseFloat(string(p[at:last]), 64); err == nil {
			return match{}, false
		}
	}
	name := strings.ReplaceAll(strings.Trim(string(p[begin:end]), "-"), "-", "_")
	return match{begin, at, last}, last-at >= shortestSecret && credential.IsNamed(name, string(p[at:last]))
}

// skip returns the first place from at on, but not far away, that has none of some characters, nor a quote as HTML has it.
func skip(p []byte, at int, chars string) int {
	for end := at + 16; at < len(p) && at < end; {
		switch {
		case strings.IndexByte(chars, p[at]) >= 0:
			at++
		case bytes.HasPrefix(p[at:], []byte("&#34;")), bytes.HasPrefix(p[at:], []byte("&#39;")):
			at += len("&#34;")
		default:
			return at
		}
	}
	return at
}

// prefixed finds tokens that begin as those of known services do.
func prefixed(p []byte, begin, end int) (match, bool) {
	if begin > 0 && isWord(p[begin-1]) {
		return match{}, false
	}
	last := end
	for last < len(p) && (isWord(p[last]) || p[last] == '.') {
		last++
	}
	if last-end < 16 || !bytes.ContainsAny(p[end:last], "0123456789") {
		return match{}, false
	}
	return match{begin, begin, last}, true
}

// accessKey finds the access keys of AWS, which are 20 capital letters and digits.
func accessKey(p []byte, begin, end int) (match, bool) {
	last := begin
	for last < len(p) && ('A' <= p[last] && p[last] <= 'Z' || '0' <= p[last] && p[last] <= '9') {
		last++
	}
	return match{begin, begin, last}, last-begin == 20 && (begin == 0 || !isWord(p[begin-1]))
}

// userinfo finds the password of a URL.
func userinfo(p []byte, begin, end int) (match, bool) {
	colon := -1
	for at := end; at < len(p) && at < end+512 && isValue(p[at]) && p[at] != '/'; at++ {
		switch {
		case p[at] == ':' && colon < 0:
			colon = at
		case p[at] == '@':
			return match{begin, colon + 1, at}, colon >= 0 && at > colon+1
		}
	}
	return match{}, false
}
