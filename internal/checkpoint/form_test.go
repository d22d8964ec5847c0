package checkpoint

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gputrain/gputrain/internal/transfer"
)

// zipped returns a zip archive as PyTorch and NumPy write them: what is in it is not compressed.
func zipped(t testing.TB, files ...string) string {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i, text := range files {
		f, err := w.CreateHeader(&zip.FileHeader{Name: fmt.Sprintf("archive/data/%d", i), Method: zip.Store})
		must(t, err)
		_, err = f.Write([]byte(text))
		must(t, err)
	}
	must(t, w.Close())
	return b.String()
}

// zip64 returns a zip archive whose directory has the records of zip64, as those of PyTorch have from 4 GiB on. large says that the
// older record refers to them.
func zip64(t testing.TB, large bool) string {
	old := zipped(t, "weights")
	end := []byte(old[len(old)-22:])
	directory, at := binary.LittleEndian.Uint32(end[12:]), binary.LittleEndian.Uint32(end[16:])
	record := make([]byte, 56+20)
	copy(record, "PK\x06\x06")
	binary.LittleEndian.PutUint64(record[4:], 44)
	binary.LittleEndian.PutUint64(record[40:], uint64(directory))
	binary.LittleEndian.PutUint64(record[48:], uint64(at))
	copy(record[56:], "PK\x06\x07")
	if large {
		copy(end[12:], "\xff\xff\xff\xff\xff\xff\xff\xff")
	}
	return old[:len(old)-22] + string(record) + string(end)
}

func safetensors(header string, data int) string {
	return string(binary.LittleEndian.AppendUint64(nil, uint64(len(header)))) + header + strings.Repeat("w", data)
}

func npy(descr, shape string, data int) string {
	header := fmt.Sprintf("{'descr': %s, 'fortran_order': False, 'shape': %s, }\n", descr, shape)
	return "\x93NUMPY\x01\x00" + string(binary.LittleEndian.AppendUint16(nil, uint16(len(header)))) + header + strings.Repeat("x", data)
}

// hdf5 returns a file of 200 bytes whose superblock is of this version.
func hdf5(version byte) string {
	b := []byte("\x89HDF\r\n\x1a\n" + strings.Repeat("\x00", 192))
	width, end := 13, map[byte]int{0: 40, 1: 44, 2: 28, 3: 28}[version]
	if version >= 2 {
		width = 9
	}
	b[8], b[width] = version, 8
	binary.LittleEndian.PutUint64(b[end:], uint64(len(b)))
	return string(b)
}

func tarred(t testing.TB) string {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	must(t, w.WriteHeader(&tar.Header{Name: "model_weights.ckpt", Size: 7, Mode: 0o600}))
	_, err := w.Write([]byte("weights"))
	must(t, err)
	must(t, w.Close())
	return b.String()
}

// tensors is a header of two tensors, of which the second ends at 24.
const tensors = `{"__metadata__":{"format":"pt"},"b":{"dtype":"F32","shape":[2],"data_offsets":[16,24]},"a":{"dtype":"F32","shape":[4],"data_offsets":[0,16]}}   `

// wholeFiles are files as programs write them, by a name for the test.
func wholeFiles(t testing.TB) map[string][2]string {
	return map[string][2]string{
		"torch":              {"model.pt", zipped(t, "pickle", strings.Repeat("w", 3000))},
		"torch of any name":  {"last", zipped(t, "pickle", strings.Repeat("w", 3000))},
		"torch, large":       {"model.pt", zip64(t, true)},
		"zip64 records":      {"model.pt", zip64(t, false)},
		"distcp":             {"__0_0.distcp", zipped(t, "one") + zipped(t, "two")},
		"safetensors":        {"model.safetensors", safetensors(tensors, 24)},
		"npy":                {"x.npy", npy("'<f4'", "(3, 5)", 60)},
		"npy of text":        {"x.npy", npy("'<U10'", "(2,)", 80)},
		"npy, scalar":        {"x.npy", npy("'|b1'", "()", 1)},
		"hdf5 0":             {"model.h5", hdf5(0)},
		"hdf5 1":             {"model.h5", hdf5(1)},
		"hdf5 2":             {"model.h5", hdf5(2)},
		"hdf5 3":             {"weights", hdf5(3)},
		"tar":                {"model.nemo", tarred(t)},
		"pickle":             {"optimizer.pkl", "\x80\x04\x95\x0b\x00\x00\x00\x00\x00\x00\x00}\x94\x8c\x01a\x94K\x01s."},
		"json, as Python":    {"trainer_state.json", `{"loss": NaN, "log": [{"a": "}{\"[ \\"}, Infinity]}` + "\n"},
		"json, empty object": {"config.json", "{}"},
	}
}

// A file is torn wherever it is cut off, and also if the rest of it is there and has not been written to.
func TestTornFilesAreFoundByTheirForm(t *testing.T) {
	for what, f := range wholeFiles(t) {
		name, text := f[0], f[1]
		if why := tornForm(strings.NewReader(text), int64(len(text)), name); why != "" {
			t.Errorf("%s: whole, and it %s", what, why)
		}
		var missed []int
		for cut := 12; cut < len(text); cut++ {
			torn := text[:cut]
			if strings.TrimRight(torn, "\n") == strings.TrimRight(text, "\n") || strings.HasSuffix(what, "distcp") && torn == zipped(t, "one") {
				continue
			}
			if tornForm(strings.NewReader(torn), int64(cut), name) == "" {
				missed = append(missed, cut)
			}
		}
		// A tar archive is whole without the last of its zeros; a pickle has dots in it.
		if len(missed) > 0 && what != "tar" {
			t.Errorf("%s: of %d bytes, it counts as whole after %d", what, len(text), missed)
		}
	}
	for name, text := range map[string]string{
		"model.pt":                   strings.Repeat("\x00", 4096),
		"model.h5":                   strings.Repeat("\x00", 4096), // it is written last of all
		"x.npz":                      "",
		"config.json":                "",
		"model.safetensors":          safetensors("{\"a\": 7}", 0),
		"half.safetensors":           safetensors("{\"a\": {\"data_offsets\": [0, 1e300]}}", 0),
		"huge.npy":                   "\x93NUMPY\x02\x00\xff\xff\xff\x7f{'descr'",
		"zeros, after a zip's start": zipped(t, "w")[:50] + strings.Repeat("\x00", 5000),
	} {
		if tornForm(strings.NewReader(text), int64(len(text)), name) == "" {
			t.Errorf("%s counts as whole", name)
		}
	}
	// What has no form that says where it ends is no file that was cut off.
	for name, text := range map[string]string{
		"model.pt":       "weights",
		"raw.bin":        strings.Repeat("\x00", 4096),
		"DONE":           "",
		"log.txt":        "{ half a",
		"events.jsonl":   `{"a": 1}` + "\n" + `{"b"`,
		"model.bin":      "\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.weights", // PyTorch before 1.6
		"structured.npy": npy("[('a', '<f4')]", "(1000,)", 4),
		"objects.npy":    npy("'|O'", "(1000,)", 4),
		"new.h5":         "\x89HDF\r\n\x1a\n\x09" + strings.Repeat("x", 100),
	} {
		if why := tornForm(strings.NewReader(text), int64(len(text)), name); why != "" {
			t.Errorf("%s %s", name, why)
		}
	}
}

// Files that belong together are whole together.
func TestTornFoldersAreFoundByTheirFiles(t *testing.T) {
	for _, tt := range []struct {
		what  string
		files tree
		torn  string
	}{
		{"all shards", tree{"model-00001-of-00002.bin": "a", "model-00002-of-00002.bin": "b"}, ""},
		{"shards from zero", tree{"ckpt.data-00000-of-00002": "a", "ckpt.data-00001-of-00002": "b"}, ""},
		{"a shard is missing", tree{"model-00001-of-00003.bin": "a", "model-00003-of-00003.bin": "b"}, "is one of 3 files, of which 2 are there"},
		{"in another folder", tree{"a/model-00001-of-00002.bin": "a", "b/model-00002-of-00002.bin": "b"}, "of which 1"},
		{"sharded by torch", tree{"__0_0.distcp": zipped(t, "x"), ".metadata": "m"}, ""},
		{"not yet", tree{"__0_0.distcp": zipped(t, "x")}, "has no .metadata"},
		{"a rest of another program", tree{"model.pt": zipped(t, "x"), "model.pt.tmp": zipped(t, "x")[:40], ".swp.json": "{"}, ""},
		{"one of many", tree{"a.pt": zipped(t, "x"), "deep/er/b.pt": zipped(t, "x")[:40]}, "step-1/deep/er/b.pt is cut off"},
		{"a link to one", tree{"a.pt": zipped(t, "x"), "latest.pt": "-> a.pt"}, ""},
	} {
		dir := t.TempDir()
		tt.files.make(t, filepath.Join(dir, "step-1"))
		all, err := localContents(filepath.Join(dir, "step-1"), "step-1")
		must(t, err)
		err = tornIn(dir, all)
		if (err != nil) != (tt.torn != "") || err != nil && !strings.Contains(err.Error(), tt.torn) {
			t.Errorf("%s: %v", tt.what, err)
		}
	}
	if err := tornIn(t.TempDir(), []transfer.Content{{Name: "gone"}}); err == nil {
		t.Error("a file that is not there is whole")
	}
}

// A checkpoint that a program writes in place, file by file and with pauses, comes only when it is whole. Until then an older one
// is used, and the program is told to rename.
func TestWrittenInPlace(t *testing.T) {
	weights, moments := zipped(t, strings.Repeat("w", 5000)), safetensors(tensors, 24)
	for first, in := range map[string]string{"step-1": "step-2", "checkpoint-1": "checkpoint-2"} {
		t.Run(in, func(t *testing.T) {
			n, _ := fakeNode(t, 0)
			k, r := newKeeper(t, Config{})
			restore(t, k, "", n)
			tree{"m": "x"}.save(t, n, first)
			stop := watch(t, k, nil, nil, n)
			until(t, func() bool { path, _ := k.Newest(); return path != "" })
			here := filepath.Join(k.cfg.To, in)
			write := func(file, text string) {
				t.Helper()
				must(t, os.MkdirAll(filepath.Join(n.Dir, in), 0o755))
				must(t, os.WriteFile(filepath.Join(n.Dir, in, file), []byte(text), 0o644))
			}
			// found is how the checkpoint was when it was found to be torn.
			found := func() seen {
				k.torn.mu.Lock()
				defer k.torn.mu.Unlock()
				if one := k.torn.ones[in]; one != nil {
					return one.as
				}
				return seen{}
			}
			for _, cut := range []int{100, 1000, 4000} {
				before := found()
				write("model.pt", weights[:cut])
				until(t, func() bool { return found() != before })
				if _, err := os.Stat(here); err == nil {
					t.Fatalf("after %d bytes, it is here", cut)
				}
			}
			if got := strings.Count(r.errs(), in+" is not kept: it is not whole: "+in+"/model.pt is cut off"); got != 1 || !strings.Contains(r.errs(), "rename it") {
				t.Errorf("told %d times: %s", got, r.errs())
			}
			write("model.pt", weights)
			until(t, func() bool { _, err := os.Stat(here); return err == nil })
			write("optimizer.safetensors", moments)
			until(t, func() bool {
				return maps.Equal(contents(t, here), tree{"model.pt": weights, "optimizer.safetensors": moments})
			})
			stop()
		})
	}
}

// A checkpoint that is torn at the task's end does not come: an older whole one does. Nor is one that is here already resumed from.
func TestTornAtTheEnd(t *testing.T) {
	for _, success := range []bool{true, false} {
		n, _ := fakeNode(t, 0)
		k, r := newKeeper(t, Config{})
		restore(t, k, "", n)
		tree{"m.pt": zipped(t, "1")}.save(t, n, "step-1")
		tree{"m.pt": zipped(t, "2")[:50]}.save(t, n, "step-2")
		must(t, k.Last(t.Context(), []Node{n}, success))
		wantNames(t, k.cfg.To, "step-1")
		if got := strings.Count(r.errs(), "step-2 is not kept"); got != 1 {
			t.Errorf("told %d times: %s", got, r.errs())
		}
		tree{"m.pt": zipped(t, "3")[:50]}.make(t, filepath.Join(k.cfg.To, "step-3"))
		restore(t, k, "step-1", n)
		wantNames(t, n.Dir, "step-1")
		if !strings.Contains(r.errs(), "step-3 is not resumed from: it is not whole") {
			t.Error(r.errs())
		}
		tree{"m.pt": zipped(t, "2")}.save(t, n, "step-2") // the next attempt does better
		must(t, k.Last(t.Context(), []Node{n}, success))
		restore(t, k, "step-2", n)
	}
}

// On the only node, an earlier program may have left more than this one knows of.
func TestTornIsNotBroughtFirst(t *testing.T) {
	n, _ := fakeNode(t, 0)
	k, _ := newKeeper(t, Config{})
	tree{"m.pt": zipped(t, "1")}.save(t, n, "step-1")
	tree{"m.pt": zipped(t, "2")[:50]}.save(t, n, "step-2")
	restore(t, k, "step-1", n)
}

func FuzzForm(f *testing.F) {
	for _, file := range wholeFiles(f) {
		f.Add(file[1], file[0])
	}
	f.Fuzz(func(t *testing.T, text, name string) {
		_ = tornForm(strings.NewReader(text), int64(len(text)), name)
	})
}
