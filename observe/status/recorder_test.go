package status_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/e2etest"
	"github.com/gputrain/gputrain/observe"
	"github.com/gputrain/gputrain/observe/status"
	"github.com/gputrain/gputrain/providers/local"
)

func TestMain(m *testing.M) {
	gputrain.Init()
	e2etest.Main(m)
}

// withToken is a token that is sent with each request.
type withToken string

func (token withToken) RoundTrip(q *http.Request) (*http.Response, error) {
	q = q.Clone(q.Context())
	q.Header.Set("Authorization", "Bearer "+string(token))
	return http.DefaultTransport.RoundTrip(q)
}

// TestOfARealPool shows a pool on this computer to a client that follows it.
func TestOfARealPool(t *testing.T) {
	rec, err := observe.New(observe.Config{})
	if err != nil {
		t.Fatal(err)
	}
	defer rec.Close()
	page, err := status.Serve(rec, "")
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	base, token, _ := strings.Cut(page.URL(), "/#token=")
	client := &http.Client{Transport: withToken(token), Timeout: time.Minute}
	defer client.CloseIdleConnections()
	get := func(url string) string {
		t.Helper()
		r, err := client.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		text, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != http.StatusOK {
			t.Fatalf("%s: %s, %v", url, r.Status, err)
		}
		return string(text)
	}
	stream, err := client.Get(base + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Body.Close()

	secret := "planted-secret-7f3a"
	pool, err := gputrain.Open(t.Context(), local.Config{}, gputrain.Spec{Nodes: 2, BudgetUSD: 1, Secrets: map[string]gputrain.Secret{"TOKEN": gputrain.Secret("literal://" + secret)}}, rec.Option())
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	tasks := []gputrain.Task{
		gputrain.Script(`echo "gputrain: step=1/2 loss=0.5"; echo "<b>$TOKEN</b>"; echo "gputrain: step=2/2 loss=0.25"`), gputrain.Script("echo why >&2; exit 3"),
	}
	for r, err := range pool.Stream(tasks...) {
		if (err != nil) != (r.Index == 1) {
			t.Errorf("task %d: %v", r.Index, err)
		}
	}
	if err := pool.Close(); err != nil {
		t.Fatal(err)
	}
	if err := rec.Close(); err != nil {
		t.Fatal(err)
	}

	var run struct {
		Seq    int64
		Counts map[string]int
		Pools  []struct{ State string }
		Nodes  []struct{ State, Provider string }
		Tasks  []struct {
			State, Cause string
			ExitCode     int
			Step         struct {
				N, Of  int
				Values map[string]float64
			}
			Lines []struct{ Text string }
		}
		Failures []struct{ Kind, Cause string }
	}
	text := get(base + "/run.json")
	if err := json.Unmarshal([]byte(text), &run); err != nil {
		t.Fatal(err)
	}
	if len(run.Pools) != 1 || run.Pools[0].State != "closed" || len(run.Nodes) != 2 || run.Nodes[0].Provider != "local" || run.Counts["done"] != 1 || run.Counts["failed"] != 1 || len(run.Tasks) != 2 {
		t.Fatalf("got %s", text)
	}
	done, failed := run.Tasks[0], run.Tasks[1]
	if done.State != "done" {
		done, failed = failed, done
	}
	if done.Step.N != 2 || done.Step.Of != 2 || done.Step.Values["loss"] != 0.25 || len(done.Lines) == 0 {
		t.Errorf("the task that is done is %+v", done)
	}
	if failed.State != "failed" || failed.Cause != "exit" || failed.ExitCode != 3 || len(run.Failures) == 0 {
		t.Errorf("the task that failed is %+v, the failures %+v", failed, run.Failures)
	}
	metrics := get(base + "/metrics")
	for _, want := range []string{`gputrain_task_ended_total{gputrain_state="done"} 1`, `gputrain_task_ended_total{gputrain_state="failed",gputrain_task_cause="exit"} 1`, "gputrain_node_ready_duration_seconds_count{"} {
		if !strings.Contains(metrics, want) {
			t.Errorf("the metrics lack %s: %.500s", want, metrics)
		}
	}

	// The stream has everything too, up to the last number.
	var events []byte
	for piece := make([]byte, 4<<10); !bytes.Contains(events, []byte("id: "+strconv.FormatInt(run.Seq, 10)+"\n")); {
		n, err := stream.Body.Read(piece)
		if events = append(events, piece[:n]...); err != nil {
			t.Fatal(err)
		}
	}
	page.Close()
	rest, _ := io.ReadAll(stream.Body) // until the server ends it
	events = append(events, rest...)
	last := events[max(strings.LastIndex(string(events), "id: "), 0):]
	var update struct{ Seq int64 }
	_, data, _ := strings.Cut(string(last), "data: ")
	if err := json.NewDecoder(strings.NewReader(data)).Decode(&update); err != nil || update.Seq != run.Seq {
		t.Errorf("the last event is of %d, want %d: %v", update.Seq, run.Seq, err)
	}
	for what, shown := range map[string]string{"run.json": text, "metrics": metrics, "the stream": string(events)} {
		if strings.Contains(shown, secret) {
			t.Errorf("%s has the secret", what)
		}
	}
}
