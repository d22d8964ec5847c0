package slurm

import (
	"context"
	"strings"
	"time"

	"github.com/gputrain/gputrain/providers/internal/pooltag"
)

// squeueFormat has a line for each job: ID, name, state, reason, node, time of submission, of the start (which is an
// estimate while the job waits) and of the end, time limit, partition, GRES, CPUs, memory, and the comment, which is last
// because others write it.
var squeueFormat = strings.Join([]string{"%i", "%j", "%T", "%r", "%N", "%V", "%S", "%e", "%l", "%P", "%b", "%C", "%m", "%k"}, separator)

// A job is a job of a node, as squeue shows it. Times are those of the cluster's clock.
type job struct {
	id, name              string // name is the job's, with the prefix
	state, reason         string
	node, partition       string
	submitted, start, end time.Time // zero means unknown
	limit                 time.Duration
	gpus                  []gpuCount
	cpus                  int
	memoryMiB             float64
	comment               comment
}

// A queue is the user's jobs at a moment.
type queue struct {
	jobs            map[string]job // by ID; those of pools alone
	now             time.Time      // on the cluster's clock
	asked, answered time.Time      // on this computer's
}

func (d *controller) squeue(args ...string) command {
	words := append([]string{"--me", "--noheader", "--all", "--states=all", "--format=" + squeueFormat}, args...)
	return command{words: d.slurm("squeue", words...)}
}

// askQueue asks for all jobs of the user, in any state.
func (d *controller) askQueue(ctx context.Context) (queue, error) {
	asked := time.Now()
	answers, err := d.read(ctx, command{words: []string{"date", "+%s"}}, d.squeue())
	if err != nil {
		return queue{}, err
	}
	q := queue{asked: asked, answered: time.Now(), now: parseSeconds(strings.TrimSpace(answers[0].out))}
	if q.now.IsZero() {
		return queue{}, unreadable("date", answers[0].out)
	}
	q.jobs, err = parseQueue(answers[1].out)
	return q, err
}

// parseQueue reads the output of squeue. It leaves out jobs that are no pool's.
func parseQueue(out string) (map[string]job, error) {
	lines, ok := rows(out, 14)
	if !ok {
		return nil, unreadable("squeue", out)
	}
	jobs := map[string]job{}
	for _, f := range lines {
		j := job{
			id: f[0], name: f[1], state: f[2], reason: f[3], node: f[4], submitted: parseSeconds(f[5]), start: parseSeconds(f[6]), end: parseSeconds(f[7]),
			limit: parseLimit(f[8]), partition: f[9], gpus: parseGRES(f[10]), cpus: int(number(f[11])), memoryMiB: parseMemory(f[12]),
		}
		if !jobID.MatchString(j.id) && !strings.Contains(j.id, "_") && !strings.Contains(j.id, "+") { // those are of arrays
			return nil, unreadable("squeue", out)
		}
		if !strings.HasPrefix(j.name, pooltag.Prefix) {
			continue
		}
		if j.comment = parseComment(j.name, f[13]); j.comment.Pool != "" {
			jobs[j.id] = j
		}
	}
	return jobs, nil
}

// nodeName returns the name of the pool's node.
func (j job) nodeName() string { return strings.TrimPrefix(j.name, pooltag.Prefix) }
