package accelerators

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"unicode"
)

// Parse reads an accelerator as users and clouds write it: "A100", "A100:4",
// "A100-80GB:4", "H100-SXM:8", "RTX 4090", "8x H100", "NVIDIA A100-SXM4-80GB".
// Case, spaces, dashes and underscores do not matter. "cpu" and "none" are the
// zero value. A name in double quotes is a provider's own, as with [Exact], and
// "any" is any device, as with [Any]: "any-48GB-cc8.9:2-4". See
// [Accelerator.String] for the conditions. An unknown name is an error that names the nearest ones. [ParseFrom] also knows
// the names that mean something at one cloud only.
func Parse(s string) (Accelerator, error) {
	a, err := parse(strings.TrimSpace(s))
	if err != nil {
		return Accelerator{}, fmt.Errorf("accelerator %q: %w", s, err)
	}
	return a, nil
}

var errEmpty = errors.New(`it is empty; write "cpu" for none`)

func parse(s string) (Accelerator, error) {
	switch normal(s) {
	case "CPU", "NONE":
		return Accelerator{}, nil
	}
	device, number, err := cutCount(s)
	if err != nil {
		return Accelerator{}, err
	}
	count, most, err := parseCount(number)
	if err != nil {
		return Accelerator{}, err
	}
	var a Accelerator
	if strings.HasPrefix(device, `"`) {
		a, err = parseExact(device)
	} else if share, ok := parseShare(device); ok {
		a = share
	} else {
		a, err = parseDevice(device)
	}
	if err != nil {
		return Accelerator{}, err
	}
	switch {
	case a.Count == 0 || a.Count == 1:
		a.Count, a.MaxCount = count, most
	case count != 1 || most != 0:
		return Accelerator{}, errors.New("more than one share of a device cannot be asked for")
	}
	return a, a.Validate()
}

var (
	countAfter  = regexp.MustCompile(`^(.*?)\s*(?::\s*([^\s:"]*)|\s[xX×]\s*(\d[^\s:"]*))$`)
	countBefore = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*[xX×*]\s*(.*)$`)
)

// cutCount takes the number of devices off: "A100:4", "A100 x4", "4x A100".
func cutCount(s string) (device, number string, err error) {
	device, number = s, "1"
	if _, ok := Lookup(s); ok && !strings.Contains(s, ":") {
		return device, number, nil // also a name that looks like a count: "7900XTX"
	}
	if m := countAfter.FindStringSubmatch(s); m != nil {
		device, number = m[1], m[2]+m[3]
	}
	if m := countBefore.FindStringSubmatch(device); m != nil && !strings.HasPrefix(device, `"`) {
		if device != s {
			return "", "", errors.New("it has two counts")
		}
		device, number = m[2], m[1]
	}
	return device, number, nil
}

var aCount = regexp.MustCompile(`^\d+(\.\d+)?(\+|-\d+(\.\d+)?)?$`)

// parseCount reads a count, "4", or a range, "2-4" or "2+".
func parseCount(s string) (count, most float64, err error) {
	if !aCount.MatchString(s) {
		return 0, 0, fmt.Errorf("count %q is not a number above 0", s)
	}
	least, largest, isRange := strings.Cut(s, "-")
	if from, ok := strings.CutSuffix(s, "+"); ok {
		least, most, isRange = from, Unlimited, false
	}
	if count, err = strconv.ParseFloat(least, 64); err == nil && isRange {
		if most, err = strconv.ParseFloat(largest, 64); err == nil && most <= 0 {
			most = math.NaN()
		}
	}
	if err != nil || !(count > 0) || math.IsNaN(most) {
		return 0, 0, fmt.Errorf("count %q is not a number above 0", s)
	}
	return count, most, nil
}

// parseExact parses a quoted name, with the suffixes that String adds.
func parseExact(s string) (Accelerator, error) {
	quoted, err := strconv.QuotedPrefix(s)
	if err != nil {
		return Accelerator{}, errors.New("the quote does not end")
	}
	name, err := strconv.Unquote(quoted)
	if err != nil || name == "" {
		return Accelerator{}, errEmpty
	}
	a := Exact(name)
	for _, word := range words(s[len(quoted):]) {
		if !a.take(word) {
			return Accelerator{}, fmt.Errorf("%q is neither memory nor a form factor", word)
		}
	}
	return a, nil
}

// longest bounds the length of a name, and so the work of parsing it.
const longest = 200

var errLong = errors.New("no accelerator has so long a name")

// parseDevice reads a device's name, with its memory and form factor.
func parseDevice(s string) (Accelerator, error) {
	switch {
	case normal(s) == "":
		return Accelerator{}, errEmpty
	case len(s) > longest:
		return Accelerator{}, errLong
	}
	var a Accelerator
	var vendor string
	var rest []string
	for _, word := range words(s) {
		vendor = cmp.Or(vendorOf(word), vendor)
		if !a.take(word) && !noise[word] {
			rest = append(rest, word)
		}
	}
	if len(rest) == 1 && strings.EqualFold(rest[0], anyName) {
		a.Vendor = vendor
		return a, nil
	}
	// A name may have words in it that look like memory: "GH200 480GB".
	if m, ok := find(normal(s)); ok {
		return Accelerator{Name: m.Name}, nil
	}
	key := strings.Join(rest, "")
	m, ok := find(key)
	if !ok {
		m, ok = a.unglue(key)
	}
	if !ok {
		return Accelerator{}, unknown(strings.Join(rest, " "))
	}
	a.Name = m.Name
	if a.FormFactor == "" && sxmOnly.MatchString(s) && m.comesAs(SXM) {
		a.FormFactor = SXM
	}
	return a, nil
}

// sxmOnly finds words that go with SXM: the driver says "H100 80GB HBM3" for it,
// and NVIDIA's machines and boards, HGX and DGX, have no other form.
var sxmOnly = regexp.MustCompile(`(?i)HBM3|HGX|DGX(?:[^S]|$)`)

// noise has the words that name a device's family and do not identify a device.
var noise = map[string]bool{
	"NVIDIA": true, "AMD": true, "INTEL": true, "AWS": true, "GOOGLE": true, "HABANA": true,
	"TESLA": true, "GEFORCE": true, "INSTINCT": true, "RADEON": true, "GRID": true, "HGX": true, "DGX": true, "NVLINK": true,
	"TENSOR": true, "CORE": true, "GPU": true, "GENERATION": true, "BLACKWELL": true, "EDITION": true, "AC": true,
	"DGXS": true, "GRAPHICS": true, "MODE": true, // a workstation's; "NVIDIA A40 (graphics mode)"
	"HBM2": true, "HBM2E": true, "HBM3": true, "HBM3E": true, "MEGA": true,
}

// withoutNoise returns the other words of a name, joined for find.
func withoutNoise(s string) string {
	var rest []string
	for _, word := range words(s) {
		if !noise[word] {
			rest = append(rest, word)
		}
	}
	return strings.Join(rest, "")
}

// glued are families that some write without a space: "geforcertx4090".
var glued = []string{"NVIDIA", "AMD", "GEFORCE", "TESLA", "INSTINCT"}

// find looks up a name. It ignores a family at its beginning.
func find(key string) (Model, bool) {
	if m, ok := Lookup(key); ok {
		return m, true
	}
	for _, family := range glued {
		if rest, ok := strings.CutPrefix(key, family); ok {
			return find(rest)
		}
	}
	return Model{}, false
}

var gluedTail = regexp.MustCompile(`^([1-9]\d*G(?:I?B)?)?(PCIE|SXM\d?|NVL|OAM)?([1-9]\d*G(?:I?B)?)?$`)

// unglue reads memory and form factor at the end of one word: "A10080GB",
// "H100SXM5". The longest model name with a valid rest wins.
func (a *Accelerator) unglue(key string) (Model, bool) {
	for i := len(key) - 1; i > 0; i-- {
		m, ok := find(key[:i])
		tail := gluedTail.FindStringSubmatch(key[i:])
		if !ok || tail == nil {
			continue
		}
		b := *a
		for _, word := range tail[1:] {
			ok = ok && (word == "" || b.take(word))
		}
		if ok {
			*a = b
			return m, true
		}
	}
	return Model{}, false
}

// words splits a spelling, in upper case. A dot stays, for "79.2GB".
func words(s string) []string {
	return strings.FieldsFunc(strings.ToUpper(s), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '.'
	})
}

const amounts = `(\d+(?:\.\d+)?)?(?:\.\.(\d+(?:\.\d+)?))?`

var (
	memory     = regexp.MustCompile(`^` + amounts + `G(?:I?B)?$`)
	total      = regexp.MustCompile(`^` + amounts + `GBTOTAL$`)
	capability = regexp.MustCompile(`^CC` + amounts + `$`)
)

// take reads a word as a condition or form factor, and reports whether it is one.
func (a *Accelerator) take(word string) bool {
	for _, c := range []struct {
		form        *regexp.Regexp
		least, most *float64
	}{
		{memory, &a.MemoryGiB, &a.MaxMemoryGiB}, {total, &a.TotalMemoryGiB, &a.MaxTotalMemoryGiB}, {capability, &a.Capability, &a.MaxCapability},
	} {
		if m := c.form.FindStringSubmatch(word); m != nil {
			return *c.least == 0 && *c.most == 0 && takeAmount(c.least, m[1]) && takeAmount(c.most, m[2]) && (*c.least != 0 || *c.most != 0)
		}
	}
	f := canonicalForm(word)
	if f == "" || a.FormFactor != "" {
		return false
	}
	a.FormFactor = f
	return true
}

// takeAmount reads an amount, or none from an empty text.
func takeAmount(to *float64, text string) bool {
	if text == "" {
		return true
	}
	v, err := strconv.ParseFloat(text, 64)
	*to = v
	return err == nil && v > 0
}
