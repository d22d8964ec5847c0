// Package record keeps records in a file that is only ever appended to, and
// that survives a crash, a full disk and a careless edit: what is read back is
// what was written, and what is missing is named.
//
// A record is one line of JSON, its head, and after it an optional body of any
// bytes:
//
//	<checksum> <length of body> <head>\n
//	<checksum> <length of body>:<checksum of body> <head>\n<body>\n
//
// Checksums are CRC-32C in eight hex digits; the first is over the rest of its
// line. So a file without bodies is text that a person can read, and a body is
// only looked for where its length can be trusted: nothing that a body holds is
// taken for a record while the line before it is whole. Every record starts a
// line, so that reading finds its way again after one that is not.
package record

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"strconv"
)

// MaxHead is the length of the longest head, in bytes.
const MaxHead = 1 << 20

// overhead bounds what a line holds beside its head: two checksums, a length and what is between.
const overhead = 8 + 1 + 19 + 1 + 8 + 1

// A Record is what was appended.
type Record struct {
	// Head is one line of JSON. Only its being one line is checked.
	Head []byte
	// Body may be empty.
	Body []byte
}

// A DamageError tells of bytes that are no record although there are others
// after them, or more of them than one append that was cut short explains.
type DamageError struct {
	Path string
	// Line counts from 1 and leaves bodies out. Offset and Length are in bytes.
	Line           int
	Offset, Length int64
	// Reason says what is wrong at Offset.
	Reason string
}

// Error says where the damage is.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at line %d (byte %d): %s; %d bytes are skipped", e.Path, e.Line, e.Offset, e.Reason, e.Length)
}

// A TornError tells that the last record is not whole: its program or machine
// ended while it was written, or writes it just now. Nobody was told that it is
// there.
type TornError struct {
	Path string
	// Offset is where the whole records end.
	Offset int64
}

// Error says where the whole records end.
func (e *TornError) Error() string {
	return fmt.Sprintf("%s ends in an incomplete record at byte %d", e.Path, e.Offset)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends a record as it is in a file.
func appendRecord(b []byte, r Record) ([]byte, error) {
	if len(r.Head) > MaxHead {
		return b, fmt.Errorf("the head of a record has %d bytes, and may have %d", len(r.Head), MaxHead)
	}
	if len(r.Head) == 0 || bytes.IndexByte(r.Head, '\n') >= 0 {
		return b, errors.New("the head of a record is not one line")
	}
	start := len(b)
	b = append(b, "00000000 "...)
	b = strconv.AppendInt(b, int64(len(r.Body)), 10)
	if len(r.Body) > 0 {
		b = append(b, ':')
		b = appendSum(b, crc32.Checksum(r.Body, castagnoli))
	}
	b = append(b, ' ')
	b = append(b, r.Head...)
	appendSum(b[:start], crc32.Checksum(b[start+9:], castagnoli))
	b = append(b, '\n')
	if len(r.Body) > 0 {
		b = append(b, r.Body...)
		b = append(b, '\n')
	}
	return b, nil
}

func appendSum(b []byte, sum uint32) []byte {
	const digits = "0123456789abcdef"
	for shift := 28; shift >= 0; shift -= 4 {
		b = append(b, digits[sum>>shift&15])
	}
	return b
}

// A line is what the line before a body says.
type line struct {
	head    []byte
	length  int64
	bodySum uint32
}

// parseLine reads a line, without its end. It returns why it is none.
func parseLine(b []byte) (l line, reason string) {
	if len(b) < 9 || b[8] != ' ' {
		return l, "there is no checksum"
	}
	sum, ok := parseSum(b[:8])
	if !ok {
		return l, "there is no checksum"
	}
	if crc32.Checksum(b[9:], castagnoli) != sum {
		return l, "the checksum is wrong"
	}
	number, head, _ := bytes.Cut(b[9:], []byte{' '})
	if len(head) == 0 || len(head) > MaxHead {
		return l, "there is no head"
	}
	digits, bodySum, hasBody := bytes.Cut(number, []byte{':'})
	l.length, ok = parseLength(digits)
	if !ok || hasBody != (l.length > 0) {
		return l, "the length is none"
	}
	if hasBody {
		if l.bodySum, ok = parseSum(bodySum); !ok {
			return l, "there is no checksum of the body"
		}
	}
	l.head = head
	return l, ""
}

// parseLength reads a number as appendRecord writes it: anything else is none.
func parseLength(b []byte) (int64, bool) {
	n, err := strconv.ParseInt(string(b), 10, 64)
	return n, err == nil && n >= 0 && n < math.MaxInt64-1 && string(b) == strconv.FormatInt(n, 10)
}

// parseSum reads eight hex digits.
func parseSum(b []byte) (sum uint32, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	for _, c := range b {
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		default:
			return 0, false
		}
		sum = sum<<4 | uint32(c)
	}
	return sum, true
}
