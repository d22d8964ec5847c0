package checkpoint

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/gputrain/gputrain/internal/transfer"
)

// A torn error says that a checkpoint is not whole by the form of its files, whatever its name says.
type torn struct{ file, why string }

func (e *torn) Error() string {
	return fmt.Sprintf("it is not whole: %s %s. Write a checkpoint under another name, and rename it once it is complete", e.file, e.why)
}

// The tornOnes are checkpoints that are not whole by their form, as they were when they were found so. Its zero value has none.
type tornOnes struct {
	mu   sync.Mutex
	ones map[string]*tornOne
}

type tornOne struct {
	as     seen
	report Report
	told   bool
}

// is reports whether an entry is torn, and has not changed since that was found.
func (t *tornOnes) is(s *seen) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one := t.ones[s.name]
	return one != nil && one.as.stamp == s.stamp && one.as.size == s.size && one.as.time == s.time
}

// add adds one, and reports whether to tell of it: a program that is still writing it is told if it is torn once more.
func (t *tornOnes) add(s *seen, r Report) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	one, again := t.ones[s.name]
	if !again {
		one = &tornOne{}
		if t.ones == nil {
			t.ones = map[string]*tornOne{}
		}
		t.ones[s.name] = one
	}
	one.as, one.report = *s, r
	tell := again && !one.told
	one.told = one.told || tell
	return tell
}

// forget removes those up to one that was copied.
func (t *tornOnes) forget(s *seen) {
	t.mu.Lock()
	defer t.mu.Unlock()
	maps.DeleteFunc(t.ones, func(_ string, one *tornOne) bool {
		return one.as.order().compare(s.order()) <= 0 || one.as.name == s.name
	})
}

// take returns the reports that were not told yet.
func (t *tornOnes) take() (untold []Report) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(t.ones)) {
		if one := t.ones[name]; !one.told {
			one.told = true
			untold = append(untold, one.report)
		}
	}
	return untold
}

// shard is a name of one of several files that are one model together, as Transformers and TensorFlow write them.
var shard = regexp.MustCompile(`^(.*)-\d{5}-of-(\d{5})(\.\w+)?$`)

// tornIn returns a torn error if the checkpoint of these files is certainly not whole. Below at, a folder of this computer, is
// what they contain. Of files of other forms it knows nothing.
func tornIn(at string, all []transfer.Content) error {
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	names, shards := make(map[string]bool, len(all)), map[string]int{}
	for _, c := range all {
		names[c.Name] = true
		if m := shard.FindStringSubmatch(c.Name); m != nil {
			shards[m[1]+"/"+m[2]+m[3]]++
		}
	}
	for _, c := range all {
		dir, base := path.Split(c.Name)
		if !c.Mode.IsRegular() || isTemporary(base) {
			continue
		}
		if path.Ext(base) == ".distcp" && !names[dir+".metadata"] { // torch.distributed.checkpoint writes it last
			return &torn{c.Name, "has no .metadata beside it"}
		}
		if m := shard.FindStringSubmatch(c.Name); m != nil {
			if want, _ := strconv.Atoi(m[2]); shards[m[1]+"/"+m[2]+m[3]] < want {
				return &torn{c.Name, fmt.Sprintf("is one of %d files, of which %d are there", want, shards[m[1]+"/"+m[2]+m[3]])}
			}
		}
		why, err := tornFile(root, c.Name)
		if err != nil {
			return err
		}
		if why != "" {
			return &torn{c.Name, why}
		}
	}
	return nil
}

// isTemporary reports whether a file has a name of one that is being written: it belongs to no form.
func isTemporary(base string) bool {
	return strings.HasPrefix(base, ".") || slices.Contains([]string{".tmp", ".temp", ".part", ".partial", ".incomplete", ".new", ".lock"}, path.Ext(base))
}

// tornFile is tornForm of a file below root.
func tornFile(root *os.Root, name string) (why string, err error) {
	f, err := root.Open(filepath.FromSlash(name))
	if err != nil {
		return "", err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return "", errors.Join(err, fs.ErrInvalid)
	}
	return tornForm(f, info.Size(), path.Base(name)), nil
}

// formBytes is how much of the start of a file says which form it has.
const formBytes = 512

// binaryForms are the endings of files that are never empty, and do not begin with zeros.
var binaryForms = []string{".pt", ".pth", ".ckpt", ".bin", ".safetensors", ".npz", ".npy", ".h5", ".hdf5", ".keras", ".gguf", ".zip", ".tar", ".pkl", ".distcp", ".msgpack"}

// tornForm says what is wrong with a file that is certainly not whole, by its first bytes and, if these say nothing, by its name. It
// is "" for all others. The forms:
// zip (PyTorch, .npz, Keras): APPNOTE.TXT 6.3; PyTorch's sharded files are several in a row.
// safetensors: its README; NumPy: numpy.lib.format; HDF5: File Format Specification 3.0, II.A; tar: POSIX pax.
func tornForm(f io.ReaderAt, size int64, name string) string {
	start := make([]byte, min(size, formBytes))
	if n, err := f.ReadAt(start, 0); n < len(start) {
		return "cannot be read: " + err.Error()
	}
	ext := strings.ToLower(path.Ext(name))
	switch {
	case len(start) == 0 && (slices.Contains(binaryForms, ext) || ext == ".json"):
		return "is empty"
	case slices.Contains(binaryForms, ext) && ext != ".bin" && len(bytes.Trim(start, "\x00")) == 0:
		return "begins with zeros"
	case bytes.HasPrefix(start, []byte("PK\x03\x04")):
		return tornZip(f, size)
	case bytes.HasPrefix(start, []byte("\x93NUMPY")):
		return tornNumPy(start, size)
	case bytes.HasPrefix(start, []byte("\x89HDF\r\n\x1a\n")):
		return tornHDF5(start, size)
	case len(start) > 262 && string(start[257:262]) == "ustar":
		return tornTar(f, size)
	case len(start) > 2 && start[0] == 0x80 && 2 <= start[1] && start[1] <= 5:
		return tornPickle(f, start, size)
	case len(start) > 8 && start[8] == '{' && binary.LittleEndian.Uint64(start) <= mostSafetensors:
		return tornSafetensors(f, int64(binary.LittleEndian.Uint64(start)), size)
	case ext == ".json":
		return tornJSON(io.NewSectionReader(f, 0, size))
	}
	return ""
}

// tornZip looks for the record that ends a zip archive, and for the directory before it.
func tornZip(f io.ReaderAt, size int64) string {
	const record, comment = 22, 1<<16 - 1
	end := make([]byte, min(size, record+comment))
	if _, err := f.ReadAt(end, size-int64(len(end))); err != nil && err != io.EOF {
		return "cannot be read: " + err.Error()
	}
	for at := len(end) - record; at >= 0; at-- {
		if string(end[at:at+4]) != "PK\x05\x06" || at+record+int(binary.LittleEndian.Uint16(end[at+20:])) != len(end) {
			continue
		}
		directory := int64(binary.LittleEndian.Uint32(end[at+12:]))
		before := size - int64(len(end)-at)
		if directory == 1<<32-1 { // zip64: its record of 56 bytes, and its locator of 20
			before -= 76
			large := make([]byte, 56)
			if _, err := f.ReadAt(large, max(before, 0)); err != nil || string(large[:4]) != "PK\x06\x06" {
				continue
			}
			directory = int64(binary.LittleEndian.Uint64(large[40:]))
		}
		if directory == 0 {
			return ""
		}
		first := make([]byte, 4)
		for _, back := range []int64{0, 76} { // the record of zip64 may be there for a small directory too
			if start := before - back - directory; directory > 0 && start >= 0 {
				if _, err := f.ReadAt(first, start); err == nil && string(first) == "PK\x01\x02" {
					return ""
				}
			}
		}
	}
	return "is cut off: a zip archive ends with its directory"
}

// dtype and shape are in the header of an array.
var (
	dtype = regexp.MustCompile(`'descr': '[<>|=]?[a-zA-Z](\d+)'`)
	shape = regexp.MustCompile(`'shape': \(([0-9, ]*)\)`)
)

func tornNumPy(start []byte, size int64) string {
	if len(start) < 12 {
		return "is cut off in its header"
	}
	header, length := int64(10), int64(binary.LittleEndian.Uint16(start[8:]))
	if start[6] >= 2 {
		header, length = 12, int64(binary.LittleEndian.Uint32(start[8:]))
	}
	need := float64(header + length)
	text := start[header:min(int64(len(start)), header+length)]
	item, dims := dtype.FindSubmatch(text), shape.FindSubmatch(text)
	if item != nil && dims != nil { // neither a structure nor objects
		bytesOf, _ := strconv.ParseFloat(string(item[1]), 64)
		if bytes.Contains(item[0], []byte("U")) {
			bytesOf *= 4
		}
		for d := range strings.SplitSeq(string(dims[1]), ",") {
			if d = strings.TrimSpace(d); d != "" {
				n, _ := strconv.ParseFloat(d, 64)
				bytesOf *= n
			}
		}
		need += bytesOf
	}
	return shorter(size, need)
}

// shorter compares a file with the size that its header gives. A float64 holds any product of what a stranger may write there.
func shorter(size int64, need float64) string {
	if float64(size) < need {
		return fmt.Sprintf("is cut off: it has %d bytes, and its header says %.0f", size, need)
	}
	return ""
}

func tornHDF5(start []byte, size int64) string {
	const versions = 4
	width := [versions]int{13, 13, 9, 9} // where the superblock has the width of an address, and the end of the file
	end := [versions]int{40, 44, 28, 28}
	if len(start) < 64 {
		return "is cut off in its header"
	}
	v := int(start[8])
	if v >= versions || start[width[v]] != 8 {
		return ""
	}
	return shorter(size, float64(binary.LittleEndian.Uint64(start[end[v]:])))
}

func tornTar(f io.ReaderAt, size int64) string {
	const last = 1024
	end := make([]byte, last)
	if size%512 == 0 {
		if _, err := f.ReadAt(end, size-last); (err == nil || err == io.EOF) && len(bytes.Trim(end, "\x00")) == 0 {
			return ""
		}
	}
	return "is cut off: a tar archive ends with zeros"
}

// oldTorch begins a file of PyTorch before 1.6, which is a pickle, and data after it.
var oldTorch = []byte("\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.")

func tornPickle(f io.ReaderAt, start []byte, size int64) string {
	end := make([]byte, 1)
	if _, err := f.ReadAt(end, size-1); err != nil && err != io.EOF || end[0] == '.' || bytes.HasPrefix(start, oldTorch) {
		return ""
	}
	return "is cut off: a pickle ends with a dot"
}

// mostSafetensors is the size of the largest header that the library reads.
const mostSafetensors = 100_000_000

func tornSafetensors(f io.ReaderAt, header, size int64) string {
	if header > size-8 {
		return shorter(size, float64(header)+8)
	}
	// One entry is held at a time: a header may be large.
	d := json.NewDecoder(bufio.NewReader(io.NewSectionReader(f, 8, header)))
	_, err := d.Token()
	var end float64
	for err == nil && d.More() {
		var entry struct {
			Offsets []float64 `json:"data_offsets"`
		}
		if _, err = d.Token(); err == nil {
			err = d.Decode(&entry)
		}
		if len(entry.Offsets) == 2 {
			end = max(end, entry.Offsets[1])
		}
	}
	if err != nil {
		return "has a header that cannot be read"
	}
	return shorter(size, float64(8+header)+end)
}

// tornJSON reports whether a value of JSON ends within itself. Python writes NaN and Infinity too, so only brackets and strings count.
func tornJSON(r io.Reader) string {
	in := bufio.NewReader(r)
	depth, text := 0, false
	for {
		c, err := in.ReadByte()
		switch {
		case err != nil && (depth > 0 || text):
			return "is cut off: its brackets are open"
		case err != nil:
			return ""
		case text && c == '\\':
			_, _ = in.ReadByte() // at the end, the next one fails too
		case c == '"':
			text = !text
		case text:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
	}
}
