package bootstrap

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// What package managers and engines print, as it was seen, and how far they say they are.
func TestProgressOfPackageManagers(t *testing.T) {
	for name, tt := range map[string]struct{ text, want string }{
		"apt": {
			"Reading package lists...\n0 upgraded, 3 newly installed, 0 to remove and 1 not upgraded.\nGet:1 http://deb.debian.org bookworm/main a 1 [2 kB]\n" +
				"Get:2 http://deb.debian.org bookworm/main b 1 [2 kB]\nFetched 4 kB in 0s\nSetting up a (1) ...\nSetting up b (1) ...\nSetting up c (1) ...\nSetting up c (1) ...\n",
			"install 0/3 packages, download 1/3 packages, download 2/3 packages, install 1/3 packages, install 2/3 packages, install 3/3 packages",
		},
		"apk":    {"(1/2) Installing a (1-r0)\n(2/2) Installing b (1-r0)\nOK: 9 MiB\n", "install 1/2 packages, install 2/2 packages"},
		"dnf":    {"  Preparing        :                  1/1 \n  Installing       : a-1.x86_64       1/2 \n  Installing       : b-1.x86_64       2/2 \n", "install 1/2 packages, install 2/2 packages"},
		"uv":     {"Resolved 2 packages in 4ms\nDownloading torch (700.0MiB)\n Downloaded torch\nPrepared 2 packages in 3s\nInstalled 2 packages in 9ms\n", "download 0/2 packages, download 1/2 packages, download 2/2 packages, install 2/2 packages"},
		"docker": {"bookworm: Pulling from debian\n0123456789ab: Pulling fs layer\nba9876543210: Pulling fs layer\n0123456789ab: Pull complete\nba9876543210: Pull complete\n", "pull 0/1 layers, pull 0/2 layers, pull 1/2 layers, pull 2/2 layers"},
		"other":  {"Get:1 x\nSetting up x\n99999999 upgraded, 1 newly installed\n(x/2) Installing\n" + strings.Repeat("x", 100_000) + "\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var told []string
				w := Watch(func(p Progress) { told = append(told, fmt.Sprintf("%s %d/%d %s", p.What, p.Done, p.Total, p.Unit)) })
				for b := range strings.SplitSeq(tt.text, "") { // lines come in parts
					if b == "\n" {
						time.Sleep(progressPause)
					}
					io.WriteString(w, b)
				}
				if got := strings.Join(told, ", "); got != tt.want {
					t.Errorf("got  %s\nwant %s", got, tt.want)
				}
			})
		})
	}
}

// However a node changes what it says, progress is paced by time alone.
func TestProgressIsPacedByTime(t *testing.T) {
	for name, line := range map[string]func(i int) string{
		"ends": func(i int) string { return fmt.Sprintf("(%d/%d) Installing x\n", i+1, i+1) },
		"others": func(i int) string {
			return []string{"Resolved 7 packages in 1ms\n", "Installed 8 packages in 1ms\n"}[i%2]
		},
		"layers":    func(i int) string { return fmt.Sprintf("%012x: Already exists\n", i) },
		"many more": func(i int) string { return fmt.Sprintf("%d upgraded, 0 newly installed\n", i) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				told := 0
				w := Watch(func(Progress) { told++ })
				for i := range 10_000 {
					io.WriteString(w, line(i))
					time.Sleep(time.Millisecond)
				}
				if told > 10*4+progressBurst {
					t.Errorf("%d reports in ten seconds", told)
				}
			})
		})
	}
}

// Progress that comes fast is reported four times a second, and its end always.
func TestProgressIsPaced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []int64
		w := Watch(func(p Progress) { told = append(told, p.Done) })
		for i := range 1000 {
			fmt.Fprintf(w, "(%d/1000) Installing x\n", i+1)
			time.Sleep(time.Millisecond)
		}
		if len(told) > 6 || told[len(told)-1] != 1000 {
			t.Errorf("told %v", told)
		}
	})
}
