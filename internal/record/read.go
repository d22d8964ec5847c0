package record

import (
	"bufio"
	"bytes"
	"errors"
	"hash/crc32"
	"io"
	"iter"
	"os"
)

// Read yields the records of a file, and changes nothing. The error beside a record is nil. Between
// records Read may yield a *[DamageError], and continues with the next undamaged record, or, at the
// end, a *[TornError]. Any other error is an error of reading, and is the last.
//
// The caller may keep the records. Reading needs memory for the longest body and one line; a false
// length allocates nothing.
func Read(path string) iter.Seq2[Record, error] {
	return func(yield func(Record, error) bool) {
		f, err := os.Open(path)
		if err != nil {
			yield(Record{}, err)
			return
		}
		defer f.Close()
		info, err := f.Stat()
		if err != nil {
			yield(Record{}, err)
			return
		}
		newScanner(f, path, position{}, info.Size()).each(yield)
	}
}

// A position is the end of a number of complete records.
type position struct {
	offset int64
	lines  int
}

// A scanner reads records from one position to the end of the file.
type scanner struct {
	path string
	in   *bufio.Reader
	at   position // of the next byte
	size int64
	skip bool // check bodies without keeping them

	long []byte // holds a line that does not fit into in's buffer
	bad  *DamageError
	end  position // of the records that were processed
}

func newScanner(r io.ReaderAt, path string, from position, size int64) *scanner {
	section := io.NewSectionReader(r, from.offset, max(0, size-from.offset))
	return &scanner{path: path, in: bufio.NewReaderSize(section, 64<<10), at: from, size: size}
}

// errCut means that a record continues after the end of the file.
var errCut = errors.New("cut short")

// each does what Read promises.
func (s *scanner) each(yield func(Record, error) bool) {
	for {
		start := s.at
		b, err := s.line()
		switch {
		case err == io.EOF && start.offset == s.at.offset:
			s.finish(yield)
			return
		case err == io.EOF:
			s.torn(start, yield)
			return
		case err != nil:
			yield(Record{}, err)
			return
		}
		l, reason := parseLine(b)
		if reason != "" {
			s.damage(start, reason)
			continue
		}
		if !s.heal(yield) {
			return
		}
		r := Record{Head: bytes.Clone(l.head)}
		if l.length > 0 {
			body, sum, err := s.body(l.length)
			switch {
			case err == errCut, err == nil && sum != l.bodySum && s.at.offset >= s.size:
				s.torn(start, yield)
				return
			case err != nil:
				yield(Record{}, err)
				return
			case sum != l.bodySum:
				s.damage(start, "the checksum of the body is wrong")
				if !s.heal(yield) {
					return
				}
				continue
			}
			r.Body = body
		}
		if !yield(r, nil) {
			return
		}
	}
}

// line returns the next line without its end, valid until the next call. If the line is too long
// for a record, it returns the line's start. It returns io.EOF if the line has no end.
func (s *scanner) line() ([]byte, error) {
	s.long = s.long[:0]
	for {
		b, err := s.in.ReadSlice('\n')
		s.at.offset += int64(len(b))
		if err == nil {
			s.at.lines++
			b = b[:len(b)-1]
			if len(s.long) == 0 {
				return b, nil
			}
		} else if err != bufio.ErrBufferFull {
			return nil, err
		}
		// One byte more than a line may have makes the line invalid.
		s.long = append(s.long, b[:min(len(b), MaxHead+overhead+1-len(s.long))]...)
		if err == nil {
			return s.long, nil
		}
	}
}

// body reads a body and the end of line after it, and returns its checksum.
func (s *scanner) body(length int64) (body []byte, sum uint32, err error) {
	if length+1 > s.size-s.at.offset {
		return nil, 0, errCut
	}
	if s.skip {
		hash := crc32.New(castagnoli)
		_, err = io.CopyN(hash, s.in, length)
		sum = hash.Sum32()
	} else {
		body = make([]byte, length)
		_, err = io.ReadFull(s.in, body)
		sum = crc32.Checksum(body, castagnoli)
	}
	if err == nil {
		var end byte
		if end, err = s.in.ReadByte(); end != '\n' {
			sum = ^sum // so that it is wrong
		}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF { // the file has become shorter
		return nil, 0, errCut
	}
	s.at.offset += length + 1
	return body, sum, err
}

// damage remembers that no record starts at a position. It extends damage that was not yielded yet.
func (s *scanner) damage(start position, reason string) {
	if s.bad == nil {
		s.bad = &DamageError{Path: s.path, Line: start.lines + 1, Offset: start.offset, Reason: reason}
	}
	s.bad.Length = s.at.offset - s.bad.Offset
}

// heal yields the damage before a valid record.
func (s *scanner) heal(yield func(Record, error) bool) bool {
	bad := s.bad
	s.bad = nil
	return bad == nil || yield(Record{}, bad)
}

// torn ends the reading of a file whose last record, at a position, is incomplete.
func (s *scanner) torn(start position, yield func(Record, error) bool) {
	s.end = start
	if s.heal(yield) {
		yield(Record{}, &TornError{Path: s.path, Offset: start.offset})
	}
}

// finish ends the reading of a file that ends with a complete line. If only its last line is wrong,
// that is a record that was cut short; if several are, it is damage.
func (s *scanner) finish(yield func(Record, error) bool) {
	if s.bad != nil && s.bad.Line == s.at.lines {
		s.end = position{s.bad.Offset, s.bad.Line - 1}
		s.bad = nil
		yield(Record{}, &TornError{Path: s.path, Offset: s.end.offset})
		return
	}
	s.end = s.at
	s.heal(yield)
}
