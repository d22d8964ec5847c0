package gputrain_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/providers/driver"
)

func ExampleTask() {
	t := gputrain.Cmd("python3", "train.py", "--seed", "7")
	t.Name = "seed 7"
	t.Env = map[string]string{"OMP_NUM_THREADS": "2"}
	t.Secrets = map[string]gputrain.Secret{"WANDB_API_KEY": "env://WANDB_API_KEY"}
	t.Timeout = 20 * time.Minute       // while it runs; waiting for a node does not count
	t.Retries = 2                      // if the task itself fails
	t.Outputs = []string{"out/*.json"} // come back however it ends
	t.SyncEvery = 10 * time.Minute     // and while it runs
	fmt.Println(t.Validate())
	// Output: <nil>
}

func ExampleTask_env() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Script(`echo "$GREETING, slot $GPUTRAIN_SLOT"`)
	t.Env = map[string]string{"GREETING": "it's\ta \"good\" day"}
	r, _ := pool.Run(t)
	fmt.Printf("%q\n", r.Stdout)
	// Output: "it's\ta \"good\" day, slot 0\n"
}

// Patterns name the files that come back. Their sizes and hashes are checked.
func ExampleTask_outputs() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))
	defer pool.Close()

	t := gputrain.Script("mkdir -p out/fold-1; echo 0.97 >out/fold-1/accuracy; echo scratch >out/tmp")
	t.Outputs = []string{"out/**/accuracy"}
	r, _ := pool.Run(t)
	for _, f := range r.Outputs {
		b, _ := os.ReadFile(filepath.Join(r.OutputDir, f.Name))
		fmt.Printf("%s, %d bytes: %s", f.Name, f.Size, b)
	}
	// Output: out/fold-1/accuracy, 5 bytes: 0.97
}

// A file that must come back and is missing is a failure. Logs are optional here.
func ExampleOptional() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))
	defer pool.Close()

	t := gputrain.Script("echo weights >model.bin")
	t.Outputs = []string{"*.bin", gputrain.Optional("logs/*.txt")}
	r, err := pool.Run(t)
	fmt.Println(len(r.Outputs), err)

	t.Outputs = []string{"*.bin", "logs/*.txt"}
	r, err = pool.Run(t)
	var failed *gputrain.TaskError
	fmt.Println(len(r.Outputs), errors.As(err, &failed) && failed.Cause == gputrain.CauseOutputs)
	// Output:
	// 1 <nil>
	// 1 true
}

// A task starts in its Dir and reads its Stdin.
func ExampleTask_stdin() {
	pool := start(1)
	defer pool.Close()

	pool.Run(gputrain.Cmd("mkdir", "data"))
	t := gputrain.Script("tr a-z A-Z; basename $PWD")
	t.Dir, t.Stdin = "data", []byte("as bytes\n")
	r, _ := pool.Run(t)
	fmt.Printf("%s", r.Stdout)
	// Output:
	// AS BYTES
	// data
}

// A task that fails is started again, as often as Retries says.
func ExampleTask_retries() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Script(`echo "attempt $GPUTRAIN_ATTEMPT"; [ "$GPUTRAIN_ATTEMPT" = 2 ]`)
	t.Retries = 3
	r, err := pool.Run(t)
	fmt.Printf("%s%d %v\n", r.Stdout, r.Attempts, err)
	// Output:
	// attempt 2
	// 2 <nil>
}

func ExampleTask_timeout() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Cmd("sleep", "600")
	t.Timeout = 50 * time.Millisecond
	_, err := pool.Run(t)
	fmt.Println(strings.Contains(err.Error(), "timed out"))
	// Output: true
}

// Validate reports all mistakes at once, before anything runs.
func ExampleTask_Validate() {
	t := gputrain.Cmd("train")
	t.Retries = -1
	t.Outputs = []string{"out/[a"}
	fmt.Println(t.Validate())
	// Output: task: invalid: Retries is -1; it counts, so it cannot be negative; Outputs[0]: the pattern "out/[a" is not valid: is a bracket or brace not closed?
}

// Arguments arrive byte for byte: no shell reads them.
func ExampleCmd() {
	pool := start(1)
	defer pool.Close()

	r, _ := pool.Run(gputrain.Cmd("echo", "$HOME", "*", "it's"))
	fmt.Printf("%s", r.Stdout)
	// Output: $HOME * it's
}

func ExampleScript() {
	pool := start(1)
	defer pool.Close()

	r, _ := pool.Run(gputrain.Script(`
		for i in 1 2 3; do
			echo "$i squared is $((i * i))"
		done | tail -n 1
	`))
	fmt.Printf("%s", r.Stdout)
	// Output: 3 squared is 9
}

// A stream that is too long for memory is completely in a file.
func ExampleResult() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1, gputrain.WithResultsDir(here))
	defer pool.Close()

	r, err := pool.Run(gputrain.Cmd("head", "-c", "2000000", "/dev/zero"))
	file, _ := os.Stat(r.StdoutFile)
	fmt.Println(len(r.Stdout) == 1<<20, r.StdoutBytes, file.Size(), r.Node.Rank, err)
	// Output: true 2000000 2000000 0 <nil>
}

// A result prints how the task went, without the task's output.
func ExampleResult_String() {
	r := gputrain.Result{
		Index: 2, Node: gputrain.Node{Rank: 1}, Attempts: 1, Elapsed: 90 * time.Second, CostUSD: driver.USD(0.05),
		Stdout: []byte("loss 0.31\n"), StdoutBytes: 10,
	}
	fmt.Println(r)
	// Output: task 2 on node 1: done, 1m30s, $0.05, stdout 10 B
}

// A secret is in the task's environment, and is written nowhere.
func ExampleSecret() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Script(`[ "$TOKEN" = hunter2 ] && echo the task has it`)
	t.Secrets = map[string]gputrain.Secret{"TOKEN": "hunter2"}
	r, _ := pool.Run(t)
	fmt.Printf("%s%v %+v\n", r.Stdout, t.Secrets["TOKEN"], t.Secrets)
	// Output:
	// the task has it
	// [redacted] map[TOKEN:[redacted]]
}

// A secret may be a reference: to a variable, a file, the keyring or the output of another program.
func ExampleSecret_reference() {
	pool := start(1)
	defer pool.Close()
	file := filepath.Join(os.TempDir(), fmt.Sprint("example-key-", os.Getpid()))
	os.WriteFile(file, []byte("sesame\n"), 0o600)
	defer os.Remove(file)
	os.Setenv("EXAMPLE_TOKEN", "hunter2")
	defer os.Unsetenv("EXAMPLE_TOKEN")

	t := gputrain.Script(`[ "$TOKEN $KEY" = "hunter2 sesame" ] && echo the task has both`)
	t.Secrets = map[string]gputrain.Secret{
		"TOKEN": "env://EXAMPLE_TOKEN",
		"KEY":   gputrain.Secret("file://" + file),
	}
	r, _ := pool.Run(t)
	fmt.Printf("%s", r.Stdout)

	t.Secrets["TOKEN"] = "env://EXAMPLE_TOKN"
	_, err := pool.Run(t)
	fmt.Println(err)
	// Output:
	// the task has both
	// secret TOKEN: invalid: "env://EXAMPLE_TOKN": the variable is not set
}

// A command with a terminal draws its progress, as it does for a person. WithOutput shows the last state of such a line.
func ExampleTask_terminal() {
	pool := start(1)
	defer pool.Close()

	t := gputrain.Script(`test -t 1 && printf '\r 50%%' && printf '\r100%%\n'; stty size <&1; echo $TERM`)
	t.TTY = true
	t.Env = map[string]string{"COLUMNS": "120"}
	r, err := pool.Run(t)
	fmt.Printf("%q %v\n", r.Stdout, err)
	// Output:
	// "\r 50%\r100%\n24 120\nxterm-256color\n" <nil>
}
