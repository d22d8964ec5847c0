//go:build unix

package checkpoint

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// writerScript writes checkpoints for ever, from step $from on: two files and a manifest with their sums, under a hidden name
// that it renames. It removes all but the last three.
const writerScript = `n=$from
while :; do
	n=$((n + 1))
	t=$dir/.tmp; rm -rf "$t"; mkdir -p "$t/sub" || exit 1
	echo "$n $$" >"$t/a"; seq 1 200 >"$t/sub/b"; echo "$n" >>"$t/sub/b"
	(cd "$t" && sha256sum a sub/b >MANIFEST) || exit 1
	mv "$t" "$dir/step-$n" || exit 1
	rm -rf "$dir/.old"
	[ ! -e "$dir/step-$((n - 3))" ] || { mv "$dir/step-$((n - 3))" "$dir/.old" && rm -rf "$dir/.old"; }
done
`

// checkManifest fails if a checkpoint is not as it was written.
func checkManifest(t testing.TB, at string) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(at, "MANIFEST"))
	must(t, err)
	lines := strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
	if len(lines) != 2 {
		t.Fatalf("%s: the manifest is %q", at, b)
	}
	for _, line := range lines {
		sum, name, _ := strings.Cut(line, "  ")
		content, err := os.ReadFile(filepath.Join(at, name))
		must(t, err)
		if got := fmt.Sprintf("%x", sha256.Sum256(content)); got != sum {
			t.Fatalf("%s/%s is not what was written", at, name)
		}
	}
}

// Whenever the writer, the copy and the program that copies end, what is restored is whole, and no step is lost that was here.
func TestRestoredIsWhole(t *testing.T) {
	rounds := 30
	if testing.Short() {
		rounds = 6
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	to := filepath.Join(t.TempDir(), "to")
	n, files := fakeNode(t, 0)
	var k *Keeper
	last := int64(-1)
	for round := range rounds {
		if k == nil || random.IntN(2) == 0 { // another program
			k, _ = newKeeper(t, Config{To: to, Every: 5 * time.Millisecond})
		}
		if random.IntN(2) == 0 { // another node
			n, files = fakeNode(t, round)
		}
		files.set(nil)
		name, step, err := k.Restore(t.Context(), []Node{n})
		must(t, err)
		if step < last {
			t.Fatalf("round %d: %d is restored, and %d was here", round, step, last)
		}
		if name != "" {
			checkManifest(t, filepath.Join(n.Dir, name))
			checkManifest(t, filepath.Join(to, name))
		}
		for _, shown := range names(t, n.Dir) {
			checkManifest(t, filepath.Join(n.Dir, shown))
		}
		writer := exec.Command("sh", "-c", writerScript)
		writer.Env = append(os.Environ(), "dir="+n.Dir, "from="+strconv.FormatInt(max(step, 0), 10))
		writer.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		must(t, writer.Start())
		ctx, cancel := context.WithCancel(t.Context())
		if random.IntN(2) == 0 {
			var calls atomic.Int32
			cut := random.Int32N(20)
			files.set(func(op string) error {
				if calls.Add(1) > cut && op != "script" { // the node is lost
					return syscall.ECONNRESET
				}
				return nil
			})
		}
		stop := watch(t, k, nil, nil, n)
		time.Sleep(time.Duration(random.IntN(400)) * time.Millisecond)
		_ = syscall.Kill(-writer.Process.Pid, syscall.SIGKILL)
		_ = writer.Wait()
		stop()
		if random.IntN(2) == 0 {
			time.AfterFunc(time.Duration(random.IntN(30))*time.Millisecond, cancel)
			_ = k.Last(ctx, []Node{n}, false)
		}
		cancel()
		_, last = k.Newest()
	}
	if last < 1 {
		t.Errorf("the last step is %d", last)
	}
}
