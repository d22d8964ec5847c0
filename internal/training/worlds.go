package training

import (
	"context"
	_ "embed"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gputrain/gputrain/internal/gang"
	"github.com/gputrain/gputrain/internal/launcher"
	"github.com/gputrain/gputrain/internal/retry"
	"github.com/gputrain/gputrain/providers/driver"
)

//go:embed worlds.sh
var listWorlds string

const (
	// The nodes are asked for the worlds of their processes worldLook after the start of an attempt, and after twice as long each
	// time, worldLooks times: a launcher may take minutes to start its processes.
	worldLook  = 3 * time.Second
	worldLooks = 8
)

// watchWorlds ends an attempt whose processes are in a world of another size than the gang's, until ctx ends: each of them may be
// a gang of its own, which trains, and ends with success. A process counts if two looks in a row see it: a program may
// run something short in another world.
func (t *Config) watchWorlds(ctx context.Context, e *gang.Attempt, track *gang.Track) {
	if _, given := t.Program.Command.Env["WORLD_SIZE"]; given {
		return // Task.Env wins
	}
	world := t.Nodes * t.Processes
	seen := make([]map[string]bool, len(e.Nodes)) // the processes of the last look
	pause := worldLook
	for range worldLooks {
		if !retry.Sleep(ctx, pause) {
			return
		}
		pause *= 2
		_ = each(e, func(n Node) error {
			i := 0
			for e.Nodes[i] != gang.Node(n) {
				i++
			}
			out, err := shell(ctx, n, "of="+word(markName+"="+t.mark())+"\n"+listWorlds)
			if err != nil || ctx.Err() != nil {
				return nil // the next look, or the attempt, tells
			}
			others := map[string]bool{}
			for process, size := range otherWorlds(out, world) {
				others[process] = true
				if seen[i][process] {
					track.Fault(gang.Failure{
						Kind: gang.NeverStarted, Node: i, Share: -1, Rank: -1, Final: true,
						Err: &driver.Error{
							Op: "train", Kind: driver.ErrInvalid,
							Err:  fmt.Errorf("the gang has %d processes, and process %s on its node %d is in a world of %d", world, process, i, size),
							Hint: worldHint(t.Launcher),
						},
					})
					break
				}
			}
			seen[i] = others
			return nil
		})
	}
}

func worldHint(l launcher.Launcher) string {
	if l == launcher.Torchrun {
		return "leave --nnodes, --nproc-per-node and --standalone away, or set Nodes and ProcessesPerNode to the same"
	}
	return "if the program runs torchrun or another launcher, set Launcher to Torchrun; if it means to, set WORLD_SIZE in Task.Env"
}

// otherWorlds returns the processes that are in a world of another size, and its size.
func otherWorlds(list string, world int) map[string]int {
	others := map[string]int{}
	for line := range strings.Lines(list) {
		process, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		pid, err := strconv.ParseUint(process, 10, 32)
		size, err2 := strconv.ParseUint(text, 10, 31)
		if err == nil && err2 == nil && size > 0 && int(size) != world {
			others[strconv.FormatUint(pid, 10)] = int(size)
		}
	}
	return others
}
