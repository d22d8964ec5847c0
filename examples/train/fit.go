package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gputrain/gputrain"
)

// settings are the arguments of each node's call.
type settings struct {
	Steps, Fail int
	Pause       time.Duration
}

// A model is a line, after a number of steps.
type model struct {
	Slope, Offset float64
	Step          int
}

// fit is called once on each node of the gang. ThisNode says which of them it is on, and where it goes on.
var fit = gputrain.Func("fit", func(ctx context.Context, s settings) (model, error) {
	node := gputrain.ThisNode(ctx)
	m, err := load(node.Resume)
	if err != nil {
		return m, err
	}
	gang, err := meet(ctx, node)
	if err != nil {
		return m, err
	}
	defer gang.close()
	for m.Step < s.Steps {
		m.Step++
		if m.Step == s.Fail && node.Attempt == 1 && node.Rank == node.Nodes-1 {
			return m, errors.New("a failure on purpose")
		}
		sum := m.gradient(node.Rank, node.Nodes)
		if err := gang.add(sum); err != nil {
			return m, err
		}
		m.Slope -= 0.5 * sum[0] / points
		m.Offset -= 0.5 * sum[1] / points
		gputrain.ReportStep(ctx, gputrain.Step{N: int64(m.Step), Of: int64(s.Steps), Values: map[string]float64{"loss": sum[2] / points}})
		if m.Step%10 == 0 && node.Rank == 0 { // all nodes have the same model
			if err := m.save(node.Checkpoints); err != nil {
				return m, err
			}
		}
		time.Sleep(s.Pause)
	}
	return m, ctx.Err()
})

// points is the number of points of the line y = 3x - 1.
const points = 99

// gradient returns the sums of the derivatives of the loss, and of the loss, for the points of one node.
func (m model) gradient(rank, nodes int) []float64 {
	sum := make([]float64, 3)
	for i := rank; i < points; i += nodes {
		x := 2*float64(i)/points - 1
		wrong := m.Slope*x + m.Offset - (3*x - 1)
		sum[0] += wrong * x
		sum[1] += wrong
		sum[2] += wrong * wrong
	}
	return sum
}

// load reads a checkpoint. Without one, it returns the model that all begin with.
func load(checkpoint string) (m model, err error) {
	if checkpoint == "" {
		return m, nil
	}
	b, err := os.ReadFile(filepath.Join(checkpoint, "model.json"))
	if err != nil {
		return m, err
	}
	return m, json.Unmarshal(b, &m)
}

// save writes a checkpoint under a hidden name, and renames it once it is whole. Only then is it copied.
func (m model) save(folder string) error {
	parts := filepath.Join(folder, fmt.Sprintf(".step-%d", m.Step))
	whole := filepath.Join(folder, fmt.Sprintf("step-%d", m.Step))
	if err := os.MkdirAll(parts, 0o700); err != nil {
		return err
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(parts, "model.json"), b, 0o600); err != nil {
		return err
	}
	if err := os.RemoveAll(whole); err != nil {
		return err
	}
	return os.Rename(parts, whole)
}
