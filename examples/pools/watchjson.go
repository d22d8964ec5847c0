package main

import (
	"encoding/json"
	"time"

	"github.com/gputrain/gputrain/observe"
)

// A runView is a Run as a line of JSON.
type runView struct {
	At       time.Time      `json:"at"`
	Pools    []string       `json:"pools"`
	States   []string       `json:"states"`
	Counts   observe.Counts `json:"counts"`
	SpentUSD float64        `json:"spentUSD"`
	Hourly   float64        `json:"hourlyUSD"`
	AtMost   *float64       `json:"atMostUSD"` // null if there is no bound
	Failures int            `json:"failures"`
	Nodes    []nodeView     `json:"nodes"`
}

func printJSONLine(s *session, run observe.Run) error {
	v := runView{
		At: run.At, Pools: []string{}, States: []string{}, Counts: run.Counts, SpentUSD: run.SpentUSD, Hourly: run.HourlyUSD,
		Failures: len(run.Failures), Nodes: nodesOf(run),
	}
	for _, p := range run.Pools {
		v.Pools, v.States = append(v.Pools, clean(p.ID)), append(v.States, clean(p.State))
	}
	if run.Bounded {
		v.AtMost = &run.AtMostUSD
	}
	return json.NewEncoder(s.out).Encode(v)
}
