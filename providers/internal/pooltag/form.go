package pooltag

import (
	"math"
	"regexp"
	"slices"
	"strconv"
	"time"
)

// A Field is one field of a tag.
type Field int

// The fields of a tag.
const (
	Managed Field = iota // always "true"; a thing without it is not gputrain's
	Pool
	Node // its name
	Rank
	Owner
	Lease
	Created
	Expires
	Until
	HostKey
)

// A Rounding is the form of a lease with parts of a second.
type Rounding int

// Leases are rounded up, rounded down, or written with their fraction.
const (
	Up Rounding = iota
	Down
	Exact
)

// A Form describes how a cloud holds tags as pairs of keys and values. The zero value of a
// field is no restriction.
type Form struct {
	// Keys are the written fields, in this order. A field without a key is not written.
	Keys []Key
	// RFC3339 writes times in that form instead of seconds of Unix time.
	RFC3339 bool
	// Lease is the rounding of leases, which are in seconds.
	Lease Rounding
	// Empty are the fields that are written even if they are empty.
	Empty []Field
	// Most bounds the bytes of a value, and Allowed must match it. Other values are omitted.
	Most    int
	Allowed *regexp.Regexp
}

// A Key is the key of a field.
type Key struct {
	Field Field
	Name  string
}

// A Pair is a key and its value.
type Pair struct{ Key, Value string }

// Pairs returns the tag in the order of the keys. It omits empty and invalid values. Only nodes
// have a rank.
func (f Form) Pairs(t Tag) []Pair {
	var pairs []Pair
	for _, k := range f.Keys {
		if value := f.value(t, k.Field); f.allows(k.Field, value) {
			pairs = append(pairs, Pair{k.Name, value})
		}
	}
	return pairs
}

// Map returns [Form.Pairs] as a map.
func (f Form) Map(t Tag) map[string]string {
	all := map[string]string{}
	for _, p := range f.Pairs(t) {
		all[p.Key] = p.Value
	}
	return all
}

func (f Form) allows(field Field, value string) bool {
	if value == "" {
		return slices.Contains(f.Empty, field)
	}
	return (f.Most == 0 || len(value) <= f.Most) && (f.Allowed == nil || f.Allowed.MatchString(value))
}

// Read returns the tag whose values get returns by their keys, "" for missing ones. It ignores
// malformed values. Without the ID of a pool the tag is empty. If the form has no key for the
// rank, it comes from the node's name.
func (f Form) Read(get func(key string) string) Tag {
	var t Tag
	hasRank := false
	for _, k := range f.Keys {
		value := get(k.Name)
		if k.Field == Managed && value != "true" {
			return Tag{}
		}
		hasRank = hasRank || k.Field == Rank
		f.read(&t, k.Field, value)
	}
	if !poolForm.MatchString(t.Pool) {
		return Tag{}
	}
	if pool, _, rank, ok := ParseName(Prefix + t.Name); ok && pool == t.Pool && !hasRank {
		t.Rank = rank
	}
	return t
}

// ReadMap is [Form.Read] of a map.
func (f Form) ReadMap(pairs map[string]string) Tag {
	return f.Read(func(key string) string { return pairs[key] })
}

// value returns the written value of a field, or "".
func (f Form) value(t Tag, field Field) string {
	switch field {
	case Managed:
		return "true"
	case Pool:
		return t.Pool
	case Node:
		return t.Name
	case Rank:
		if t.Name == "" {
			return ""
		}
		return strconv.Itoa(t.Rank)
	case Owner:
		return t.Owner
	case Lease:
		return f.seconds(t.Lease)
	case Created:
		return f.moment(t.Created)
	case Expires:
		return f.moment(t.Expires)
	case Until:
		return f.moment(t.Until)
	case HostKey:
		return t.HostKey
	}
	return ""
}

// read sets a field from its written value.
func (f Form) read(t *Tag, field Field, value string) {
	switch field {
	case Pool:
		t.Pool = value
	case Node:
		t.Name = value
	case Rank:
		t.Rank = int(number(value, math.MaxInt32))
	case Owner:
		t.Owner = value
	case Lease:
		t.Lease = f.readSeconds(value)
	case Created:
		t.Created = f.readMoment(value)
	case Expires:
		t.Expires = f.readMoment(value)
	case Until:
		t.Until = f.readMoment(value)
	case HostKey:
		t.HostKey = value
	}
}

func (f Form) seconds(d time.Duration) string {
	s := d.Seconds()
	switch f.Lease {
	case Up:
		s = math.Ceil(s)
	case Down:
		s = math.Floor(s)
	}
	if d <= 0 {
		return ""
	}
	return strconv.FormatFloat(s, 'f', -1, 64)
}

func (f Form) readSeconds(text string) time.Duration {
	if f.Lease != Exact {
		return time.Duration(number(text, int64(math.MaxInt64/time.Second))) * time.Second
	}
	s, err := strconv.ParseFloat(text, 64)
	if err != nil || !(s > 0 && s < float64(math.MaxInt64/time.Second)) {
		return 0
	}
	return time.Duration(s * float64(time.Second))
}

func (f Form) moment(at time.Time) string {
	switch {
	case at.IsZero():
		return ""
	case f.RFC3339:
		return at.UTC().Format(time.RFC3339)
	}
	return strconv.FormatInt(at.Unix(), 10)
}

func (f Form) readMoment(text string) time.Time {
	if f.RFC3339 {
		at, _ := time.Parse(time.RFC3339, text) // zero if it is not a time
		return at
	}
	if n := number(text, 1<<40); n > 0 {
		return time.Unix(n, 0)
	}
	return time.Time{}
}

// number reads a number from 0 to most, or returns 0.
func number(text string, most int64) int64 {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return 0
	}
	return n
}
