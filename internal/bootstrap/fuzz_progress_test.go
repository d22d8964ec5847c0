package bootstrap

import "testing"

// What a phase prints, in whatever pieces, is progress within its whole.
func FuzzWatch(f *testing.F) {
	f.Add("3 upgraded, 4 newly installed, 0 to remove\nGet:1 http://x\nSetting up a\n", 7)
	f.Add("Resolved 12 packages in 1ms\r\nDownloaded x\nPrepared 12 packages in 2ms\nInstalled 12 packages in 3ms\n", 1)
	f.Add("0123456789ab: Pulling fs layer\n0123456789ab: Pull complete\n(999999/0) Installing x\n", 100)
	f.Fuzz(func(t *testing.T, text string, size int) {
		size = max(size, 1)
		w := Watch(func(p Progress) {
			if p.What == "" || p.Unit == "" || p.Done < 0 || p.Total < 0 || p.Total > 2e6 {
				t.Errorf("%+v", p)
			}
		})
		for rest := []byte(text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
			if n, err := w.Write(rest[:min(size, len(rest))]); err != nil || n != min(size, len(rest)) {
				t.Errorf("%d, %v", n, err)
			}
		}
	})
}
