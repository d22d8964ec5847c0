package pooltag

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// standard is the form for clouds that allow at most eight tags, keys of 17 characters and
// values shorter than 128.
var standard = Form{
	Keys: []Key{
		{Pool, Prefix + "pool"}, {Node, Prefix + "node"}, {Owner, Prefix + "owner"}, {Lease, Prefix + "lease"},
		{Created, Prefix + "created"}, {Expires, Prefix + "expires"}, {Until, Prefix + "until"}, {HostKey, Prefix + "host-key"},
	},
	Most: 127,
}

// Pairs returns the tag as values by key, for clouds with at most eight tags, keys of 17
// characters and values shorter than 128. It omits a longer owner. Times and the lease are in seconds;
// zero values have no key.
func (t Tag) Pairs() map[string]string { return standard.Map(t) }

// FromPairs reads what Pairs has written. Without a Pool it is not gputrain's.
func FromPairs(pairs map[string]string) Tag { return standard.ReadMap(pairs) }

// Words returns the tag as a list, for clouds whose tags are single words: "gputrain", and for
// each pair "gputrain-pool-p7x2". A character other than a letter, a digit, a dash or a dot
// becomes an underscore and two hexadecimal digits: _2F is a slash.
func (t Tag) Words() []string {
	words := []string{strings.TrimSuffix(Prefix, "-")}
	for _, p := range standard.Pairs(t) {
		words = append(words, p.Key+"-"+escape(p.Value))
	}
	return words
}

// FromWords reads the words that Words has written, and ignores others.
func FromWords(words []string) Tag {
	pairs := map[string]string{}
	for _, w := range words {
		for _, key := range standard.Keys {
			if v, ok := strings.CutPrefix(w, key.Name+"-"); ok {
				pairs[key.Name] = unescape(v)
			}
		}
	}
	return FromPairs(pairs)
}

var (
	special = regexp.MustCompile(`[^A-Za-z0-9.-]`)
	escaped = regexp.MustCompile(`_[0-9A-F]{2}`)
)

func escape(value string) string {
	return special.ReplaceAllStringFunc(value, func(c string) string {
		var b strings.Builder
		for i := range len(c) { // a letter may have several bytes
			fmt.Fprintf(&b, "_%02X", c[i])
		}
		return b.String()
	})
}

func unescape(word string) string {
	return escaped.ReplaceAllStringFunc(word, func(c string) string {
		n, _ := strconv.ParseUint(c[1:], 16, 8)
		return string([]byte{byte(n)})
	})
}
