// Package record keeps records in a file that is only appended to, and that survives a crash, a
// full disk and a careless edit. Reading returns what was written, and reports what is missing.
//
// A record is one line of JSON, its head, followed by an optional body of any bytes:
//
//	<checksum> <length of body> <head>\n
//	<checksum> <length of body>:<checksum of body> <head>\n<body>\n
//
// Checksums are CRC-32C in eight hex digits; the first covers the rest of its line. A file without
// bodies is readable text. A body is only read if its length can be trusted, so its bytes are never
// taken for a record as long as the line before it is valid. Every record starts a line, so reading
// can continue after a damaged record.
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

// overhead bounds the rest of a line: two checksums, a length and separators.
const overhead = 8 + 1 + 19 + 1 + 8 + 1

// A Record is the unit that is appended.
type Record struct {
	// Head is one line of JSON. Only that it is one line is checked.
	Head []byte
	// Body may be empty.
	Body []byte
}

// A DamageError reports bytes that are no record, if there are others after them, or more of them
// than an interrupted append can leave.
type DamageError struct {
	Path string
	// Line counts from 1, without bodies. Offset and Length are in bytes.
	Line           int
	Offset, Length int64
	// Reason says what is wrong at Offset.
	Reason string
}

// Error names the offset of the damage.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s is damaged at line %d (byte %d): %s; %d bytes are skipped", e.Path, e.Line, e.Offset, e.Reason, e.Length)
}

// A TornError reports that the last record is incomplete: its program or machine ended during the
// write, or the write is still in progress. No caller was told that the record was written.
type TornError struct {
	Path string
	// Offset is the end of the complete records.
	Offset int64
}

// Error names the offset at which the complete records end.
func (e *TornError) Error() string {
	return fmt.Sprintf("%s ends in an incomplete record at byte %d", e.Path, e.Offset)
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// appendRecord appends a record in the file's format.
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

// A line is the content of a record's first line.
type line struct {
	head    []byte
	length  int64
	bodySum uint32
}

// parseLine parses a line, without its end. If the line is invalid, it returns the reason.
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

// parseLength parses a number in the form that appendRecord writes. Any other form is invalid.
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
