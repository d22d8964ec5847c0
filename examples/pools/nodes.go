package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/observe"
)

var nodesCommand = &command{
	name: "nodes", args: "POOL", least: 1, most: 1, summary: "list a pool's machines",
	help: `Of a name or ID: the machines that the provider lists, also those that the pool's
program has not seen yet. Of a file of events: the nodes with their rank, state,
cost and tasks, as far as the file goes. Either only reads.`,
	flags: poolFlags, run: nodes,
}

// A nodeView is a node, or something else that a provider holds for a pool, as JSON.
type nodeView struct {
	Pool     string    `json:"pool,omitzero"`
	Rank     *int      `json:"rank,omitempty"`
	Kind     string    `json:"kind,omitzero"`
	ID       string    `json:"id,omitzero"`
	Name     string    `json:"name,omitzero"`
	State    string    `json:"state,omitzero"`
	Provider string    `json:"provider,omitzero"`
	Type     string    `json:"instanceType,omitzero"`
	Region   string    `json:"region,omitzero"`
	Hourly   *float64  `json:"hourlyUSD"`
	Spent    *float64  `json:"spentUSD,omitempty"`
	Began    time.Time `json:"launched,omitzero"`
	Owner    string    `json:"owner,omitzero"`
	Tasks    []string  `json:"tasks,omitempty"`
	Err      string    `json:"error,omitzero"`
}

func viewOfResource(r gputrain.Resource) nodeView {
	return nodeView{
		Pool: clean(r.Pool), Kind: clean(r.Kind), ID: clean(r.ID), Name: clean(r.Name), State: stateOf(r), Provider: clean(r.Provider), Region: clean(r.Region),
		Hourly: amount(r.HourlyUSD), Began: r.Created, Owner: clean(r.Owner),
	}
}

func viewOfNode(n observe.Node) nodeView {
	v := nodeView{
		Pool: clean(n.Pool), Rank: &n.Rank, ID: clean(n.ID), Name: clean(n.Name), State: clean(n.State), Provider: clean(n.Provider), Type: clean(n.InstanceType),
		Region: clean(n.Region), Hourly: amount(n.HourlyUSD), Began: n.Launched, Err: clean(n.Err),
	}
	for _, id := range n.Tasks {
		v.Tasks = append(v.Tasks, clean(id))
	}
	if n.Known {
		v.Spent = &n.SpentUSD
	}
	return v
}

func nodes(ctx context.Context, s *session) error {
	if s.isFile(s.args[0]) {
		run, err := observe.Read(s.args[0])
		if err != nil {
			return err
		}
		if s.json {
			return printJSON(s.out, nodesOf(run))
		}
		return printNodes(s, run)
	}
	r, err := s.pool(s.args[0])
	if err != nil {
		return err
	}
	machines, err := s.machines(ctx, r)
	if err != nil {
		return err
	}
	if s.json {
		views := []nodeView{}
		for _, m := range machines {
			views = append(views, viewOfResource(m))
		}
		return printJSON(s.out, views)
	}
	if len(machines) == 0 {
		fmt.Fprintf(s.out, "%s lists no machine of pool %s\n", r.Provider, r.ID)
		return nil
	}
	var t table
	t.add("NAME", "ID", "STATE", "REGION", "PRICE", "AGE")
	for _, m := range machines {
		t.add(m.Name, m.ID, m.State, m.Region, perHour(m.HourlyUSD), since(m.Created, time.Now()))
	}
	return t.print(s.out)
}

// machines returns the machines that a pool's provider lists.
func (s *session) machines(ctx context.Context, r gputrain.PoolRecord) ([]gputrain.Resource, error) {
	provider, err := s.providerOf(r)
	if err != nil {
		return nil, err
	}
	held, err := listAll(ctx, []gputrain.Provider{provider}, r.ID)
	machines := slices.DeleteFunc(held, func(h gputrain.Resource) bool { return h.Kind != machine })
	slices.SortFunc(machines, func(a, b gputrain.Resource) int { return strings.Compare(a.Name, b.Name) })
	return machines, err
}

func nodesOf(run observe.Run) []nodeView {
	views := []nodeView{}
	for _, n := range run.Nodes {
		views = append(views, viewOfNode(n))
	}
	return views
}

// printNodes prints the nodes of a Run.
func printNodes(s *session, run observe.Run) error {
	if len(run.Nodes) == 0 {
		fmt.Fprintln(s.out, "no nodes yet")
		return nil
	}
	names := map[string]string{}
	for _, t := range run.Tasks {
		names[t.Pool+"\x00"+t.ID] = t.Name
	}
	var t table
	t.add("RANK", "STATE", "TYPE", "REGION", "PRICE", "AGE", "SPENT", "DOES")
	for _, n := range run.Nodes {
		end := run.At
		if !n.Gone.IsZero() {
			end = n.Gone
		}
		cost := "unknown"
		if n.Known {
			cost = dollars(n.SpentUSD)
		}
		does := n.Phase
		if len(n.Tasks) > 0 {
			var tasks []string
			for _, id := range n.Tasks[:min(len(n.Tasks), 3)] {
				tasks = append(tasks, nameOf(names[n.Pool+"\x00"+id], id))
			}
			does = strings.Join(tasks, ", ")
			if more := len(n.Tasks) - len(tasks); more > 0 {
				does += fmt.Sprintf(" and %d more", more)
			}
		}
		if n.Err != "" && n.Gone.IsZero() && does == "" || !n.Gone.IsZero() {
			does = n.Err
		}
		t.add(n.Rank, n.State, n.InstanceType, n.Region, perHour(n.HourlyUSD), since(n.Launched, end), cost, short(does))
	}
	return t.print(s.out)
}

// nameOf returns the name of a task, or its ID.
func nameOf(name, id string) string {
	if name != "" {
		return name
	}
	return id
}

// short cuts a text to what fits into a column.
func short(text string) string {
	const most = 60
	if runes := []rune(clean(text)); len(runes) > most {
		return string(runes[:most-1]) + "…"
	}
	return text
}
