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

// Read yields the records of a file, one at a time, and changes nothing. With
// each it yields no error. In between it may yield a *[DamageError] and goes on
// with the next record that is whole, or, as the last, a *[TornError]. Any other
// error is one of reading, and the last.
//
// What is yielded is the caller's to keep. The body that is longest, and one
// line, bound the memory that reading takes; a length that is not true takes none.
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

// A position is where the whole records up to there end.
type position struct {
	offset int64
	lines  int
}

// A scanner reads records from one position to the end of the file.
type scanner struct {
	path string
	in   *bufio.Reader
	at   position // of what was not looked at
	size int64
	skip bool // bodies are checked and not kept

	long []byte // a line that does not fit into in's buffer
	bad  *DamageError
	end  position // where the next record can be appended, once each has returned
}

func newScanner(r io.ReaderAt, path string, from position, size int64) *scanner {
	section := io.NewSectionReader(r, from.offset, max(0, size-from.offset))
	return &scanner{path: path, in: bufio.NewReaderSize(section, 64<<10), at: from, size: size}
}

// errCut is a record that goes on after the end of the file.
var errCut = errors.New("cut short")

// each yields what Read promises.
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

// line returns the next line without its end, to be used before the next call.
// Of one that is too long for a record it returns the start. It returns io.EOF
// for one that has no end.
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
		// One byte more than a line may have makes it one that is wrong.
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
			sum = ^sum // it can not be the right one
		}
	}
	if err == io.EOF || err == io.ErrUnexpectedEOF { // it has become shorter meanwhile
		return nil, 0, errCut
	}
	s.at.offset += length + 1
	return body, sum, err
}

// damage notes that no record starts at a position. What was noted before it
// and not yet told is one with it.
func (s *scanner) damage(start position, reason string) {
	if s.bad == nil {
		s.bad = &DamageError{Path: s.path, Line: start.lines + 1, Offset: start.offset, Reason: reason}
	}
	s.bad.Length = s.at.offset - s.bad.Offset
}

// heal tells of the damage noted, since what follows is whole.
func (s *scanner) heal(yield func(Record, error) bool) bool {
	bad := s.bad
	s.bad = nil
	return bad == nil || yield(Record{}, bad)
}

// torn ends a file whose last record, at a position, is not whole.
func (s *scanner) torn(start position, yield func(Record, error) bool) {
	s.end = start
	if s.heal(yield) {
		yield(Record{}, &TornError{Path: s.path, Offset: start.offset})
	}
}

// finish ends a file that ends where a line does. One last line that is wrong
// is a record that was cut short; several are not.
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
