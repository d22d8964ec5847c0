//go:build unix

package bootstrap

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf16"
)

// inUTF16 is what PowerShell's > writes.
func inUTF16(text string, order binary.AppendByteOrder, mark bool) string {
	var out []byte
	if mark {
		text = "\ufeff" + text
	}
	for _, u := range utf16.Encode([]rune(text)) {
		out = order.AppendUint16(out, u)
	}
	return string(out)
}

func inUTF32(text string, order binary.AppendByteOrder) string {
	var out []byte
	for _, r := range "\ufeff" + text {
		out = order.AppendUint32(out, uint32(r))
	}
	return string(out)
}

// TestRequirementsAsPeopleHaveThem: a file is read in the encoding in which pip reads it, also one that another includes.
func TestRequirementsAsPeopleHaveThem(t *testing.T) {
	const text = "# für alle: é 🎉\r\nnumpy==1.26.4\r\n"
	const want = "# für alle: é 🎉\nnumpy==1.26.4\n"
	for name, tt := range map[string]struct{ content, want string }{
		"PowerShell":            {inUTF16(text, binary.LittleEndian, true), want},
		"UTF-16, other end":     {inUTF16(text, binary.BigEndian, true), want},
		"UTF-32":                {inUTF32(text, binary.LittleEndian), want},
		"UTF-32, other end":     {inUTF32(text, binary.BigEndian), want},
		"UTF-8 with a mark":     {"\ufeff" + text, want},
		"line ends of old Macs": {"numpy\rtorch\r", "numpy\ntorch\n"},
		"Latin-1":               {"# -*- coding: latin-1 -*-\n# f\xfcr\nnumpy\n", "# -*- coding: utf-8 -*-\n# für\nnumpy\n"},
		"in the second line":    {"#!pip\n# vim: set fileencoding=ISO_8859_1 :\n# f\xfcr\n", "#!pip\n# vim: set fileencoding=utf-8 :\n# für\n"},
		"a third line is text":  {"#\n#\n# coding: klingon\n", "#\n#\n# coding: klingon\n"},
		"Windows":               {"# coding=cp1252\n# 5 \x80\n", "# coding=utf-8\n# 5 €\n"},
		"it says UTF-8":         {"# coding: utf-8\n# für\n", "# coding: utf-8\n# für\n"},
		"empty":                 {"", ""},
		"only a mark":           {"\xff\xfe", ""},
	} {
		dir := write(t, map[string]string{"requirements.txt": "-r more.txt\n", "more.txt": tt.content})
		for file, at := range map[string]int{"more.txt": 0, "requirements.txt": 1} {
			r, err := readRequirements(filepath.Join(dir, file))
			if err != nil {
				t.Errorf("%s, %s: %v", name, file, err)
			} else if got := string(r.files[at].content); got != tt.want {
				t.Errorf("%s, %s: %q, want %q", name, file, got, tt.want)
			}
		}
	}
	home := t.TempDir()
	t.Setenv("HOME", home)
	for _, line := range []string{
		"numpy", "numpy==1.26.4", "numpy == 1.*", "requests [security,tests] >= 2.8.1, == 2.8.* ; python_version < \"2.7\"", "torch==2.1.0+cu118", "x (>=1,<2)", "x>=1,",
		"foo===1.0-weird", "a~=1!2.0", "name@https://example.com/x.whl", "name[a] @ git+https://example.com/x@abc#egg=name", "https://example.com/x-1.tar.gz", "/opt/wheels/x.whl",
		"x @ file:///opt/wheels/x-1.whl", "numpy --hash=sha256:00", "-e git+https://example.com/x#egg=x", "--index-url https://example.com/simple", "--pre", "# pip list\nnumpy",
		"importlib-metadata; python_version<'3.8'", "a.b_c-d>=1.0.dev3", "${NAME}==1", "-e " + home + "/there-is-none",
		"--find-links /opt/work", "-f /data/ci/", "-e /workspace/work", "/opt/work", "-e git+ssh://git@example.com/x",
	} {
		dir := write(t, map[string]string{"requirements.txt": line + "\n"})
		if _, err := readRequirements(filepath.Join(dir, "requirements.txt")); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// TestRequirementsOfOtherTools: what pip cannot read is refused before anything is rented, once, by its line, with what to do.
func TestRequirementsOfOtherTools(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	if err := os.Mkdir(filepath.Join(home, "mine"), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct{ content, want string }{
		"pip list":                {"Package    Version\n---------- -------\nnumpy      1.26.4\ntorch 2.1\n", `:1: "Package    Version": it is the table of pip list; "pip list --format=freeze"`},
		"pip list, its middle":    {"numpy      1.26.4\ntorch      2.1\n", ":1: "},
		"pip list, only lines":    {"# mine\n---------- -------\n", ":2: "},
		"pip list with locations": {"Package Version Editable project location\n", ":1: "},
		"conda list --export":     {"# platform: linux-64\nnumpy=1.26.4=py310_0\ntorch=2.1=cuda\n", `:2: "numpy=1.26.4=py310_0": one = is conda's; write ==`},
		"conda's one =":           {"numpy=1.26\n", ":1: "},
		"conda list":              {"# packages in environment at /opt/conda:\n#\nnumpy  1.26.4  py310_0  conda-forge\n", ":3: "},
		"conda list --explicit":   {"# platform: linux-64\n@EXPLICIT\nhttps://repo.anaconda.com/pkgs/main/linux-64/x-1.conda\n", ":2: "},
		"conda's package":         {"https://conda.anaconda.org/x/linux-64/x-1.conda#0123\n", ":1: "},
		"conda env export":        {"name: base\nchannels:\n  - defaults\n", ":1: "},
		"conda's pip freeze":      {"certifi @ file:///croot/certifi_1671487769961/work/certifi\n", `:1: "/croot/certifi_1671487769961/work/certifi" is a folder of the computer that has built the package`},
		"conda-forge's":           {"numpy\nanyio @ file:///home/conda/feedstock_root/build_artifacts/anyio_1/work\n", ":2: "},
		"an older conda's":        {"anyio @ file:///tmp/build/80754af9/anyio_1617783275907/work/dist\n", "anyio==VERSION"},
		"conda's on Windows":      {"x @ file:///C:/ci/x_1/work\n", "x==VERSION"},
		"conda's on a Mac":        {"x @ file:///private/var/folders/x/work\n", ":1: "},
		"another user's":          {"x @ file:///Users/me/x\n", ":1: "},
		"another kind of build":   {"x @ file:///opt/concourse/worker/volumes/live/1/volume/x_1/work\n", ":1: "},
		"mine":                    {"x @ file://" + home + "/mine\n", ":1: "},
		"mine, editable":          {"# Editable install with no version control (x==0.1)\n-e " + home + "/mine\n", ":2: "},
		"TOML":                    {"[packages]\nnumpy = \"*\"\n", ":1: "},
		"JSON":                    {"{\n \"numpy\": 1 }\n", ":1: "},
		"a command":               {"numpy\npip install torch\n", `:2: "pip install torch": it is a command`},
		"a merge":                 {"numpy\n<<<<<<< HEAD\n", ":2: "},
		"a typo":                  {"numpy\nnumpy => 1\n", `:2: "numpy => 1" is no requirement`},
		"prose":                   {"the packages that we need\n", ":1: "},
		"UTF-16 without a mark":   {inUTF16("numpy\n", binary.LittleEndian, false), "save it as UTF-8"},
		"half a letter":           {"\xff\xfe" + "n", "cut"},
		"Latin-1, not said":       {"numpy\n# f\xfcr\n", "line 2 is not text in UTF-8; save the file as UTF-8"},
		"an unknown coding":       {"# coding: klingon\nnumpy\n", `its coding line says "klingon"`},
		"no text at all":          {"\x7fELF\x02\x01\x00\x00", "save it as UTF-8"},
	} {
		dir := write(t, map[string]string{"requirements.txt": tt.content})
		file := filepath.Join(dir, "requirements.txt")
		_, err := Plan(Image{Requirements: file})
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%s: %v, want %q", name, err, tt.want)
			continue
		}
		if n := strings.Count(err.Error(), file); n != 1 {
			t.Errorf("%s: said %d times: %v", name, n, err)
		}
	}
}
