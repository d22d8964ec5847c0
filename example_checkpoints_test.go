package gputrain_test

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gputrain/gputrain"
)

// A checkpoint is a folder step-<n> that appears by a rename. After a failure the task goes on from the newest one.
func ExampleTask_checkpoints() {
	here, _ := os.MkdirTemp("", "")
	defer os.RemoveAll(here)
	pool := start(1)
	defer pool.Close()

	train := gputrain.Script(`
		if [ -n "$GPUTRAIN_RESUME" ]; then
			echo "goes on from ${GPUTRAIN_RESUME##*/}: $(cat "$GPUTRAIN_RESUME/model")"
			exit
		fi
		cd "$GPUTRAIN_CHECKPOINTS"
		mkdir .saving
		echo "the weights" >.saving/model
		mv .saving step-120
		exit 1`)
	train.Name, train.Retries = "llm", 1
	train.Checkpoints = gputrain.Checkpoints{To: here, Every: time.Second}
	r, err := pool.Run(train)
	fmt.Print(string(r.Stdout))
	fmt.Println(err)

	kept, _ := filepath.Glob(filepath.Join(here, "llm", "step-*"))
	for _, path := range kept {
		fmt.Println("here is", filepath.Base(path))
	}
	// Output:
	// goes on from step-120: the weights
	// <nil>
	// here is step-120
}
