package report

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"maps"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gputrain/gputrain"
	"github.com/gputrain/gputrain/internal/test/texts"
	"github.com/gputrain/gputrain/observe"
)

// keyText is a private key that is none.
var keyText = "-----BEGIN RSA PRIVATE " + "KEY-----\n" + strings.Repeat("MIIEowIBAAKCAQEA7lWqbQHc+/abcdefghijklmnopqrstuvwxyz0123456789AB\n", 5) + "dGhlIGVuZA==\n-----END RSA PRIVATE " + "KEY-----\n"

var environ = []string{"HF_TOKEN=hunter2-hunter2", "ODD_PASSWORD=a\"b<c&d\\e", "TINY_KEY=abc", "PLAIN=not a secret", "MULTI_SECRET=first line of it\nsecond line of it"}

// filled is a Run of which each text is the same.
func filled(t *testing.T, text string) (r observe.Run) {
	texts.Fill(t, &r, text)
	r.Began, r.At, r.Seq = t0, at(time.Hour), 1
	r.Tasks[0].State, r.Nodes[0].State, r.Phases[0].State = "failed", "failed", "failed"
	r.Failures[0].Kind = "task"
	return r
}

// allFiles returns everything that a Run is written to for others, by its name.
func allFiles(t *testing.T, run observe.Run) map[string]string {
	t.Helper()
	all := map[string]string{}
	for name, write := range map[string]func(string, observe.Run) error{"report.html": WriteHTML, "report.md": WriteMarkdown, "report.json": WriteJSON} {
		all[name] = written(t, write, run)
	}
	b := bundleOf(run)
	ev := gputrain.Event{}
	texts.Fill(t, &ev, run.Pools[0].ID, "Err")
	ev.Kind, ev.Err = gputrain.EventTask, &gputrain.TaskError{Name: run.Pools[0].ID, Tail: run.Pools[0].ID, Stack: run.Pools[0].ID}
	b.recorder.(*fakeRecorder).event = func(seq int64) observe.Entry { return observe.Entry{Seq: seq, Event: &ev} }
	b.ledgers = func() ([]gputrain.PoolRecord, error) {
		var r gputrain.PoolRecord
		texts.Fill(t, &r, run.Pools[0].ID, "Err")
		return []gputrain.PoolRecord{r}, nil
	}
	b.environ = append(b.environ, "WEB_PASSWORD=zander/fisch+1")
	path := filepath.Join(t.TempDir(), "bundle.zip")
	if err := b.write(context.Background(), path); err != nil {
		t.Fatal(err)
	}
	_, bundled := unzip(t, path)
	maps.Copy(all, bundled)
	return all
}

// Whatever text of a run has a credential, nothing that is written for others has it.
func TestNoCredentialInAnythingForOthers(t *testing.T) {
	t.Setenv("WEB_PASSWORD", "zander/fisch+1")
	for _, secret := range []struct{ before, secret, after string }{
		{"a ", "hf_aBcDeFgHiJkLmNoPqRsTuVwXyZ01234567", " b"}, {"git remote https://joe:", "forelle&,1", "@host/x"}, {"Authorization: Basic ", "am9lOmthcnBmZW4=", ""},
		{"login joe password ", "karpfen", " x"}, {"curl -u joe:", "karausche", " https://h"}, {"as it is ", "zander/fisch+1", " "}, {"user:pass ", base64.StdEncoding.EncodeToString([]byte("joe:zander/fisch+1")), " "},
		{"Cookie: ", "sid=barsch; b=c", ""}, {"https://h/x?X-Amz-Signature=", strings.Repeat("0a1b", 16), "&x=1"}, {"https://hooks.slack.com/services/", "T00000000/B0000000/barschbarsch12", ""},
	} {
		for name, text := range allFiles(t, filled(t, secret.before+secret.secret+secret.after)) {
			for _, part := range []string{secret.secret, strings.TrimRight(secret.secret, "=")[len(secret.secret)/2:]} {
				if i := strings.Index(text, part); i >= 0 {
					t.Errorf("%s has %q: %q", name, part, text[max(i-100, 0):i+len(part)])
				}
			}
			if !strings.Contains(text, "[redacted]") && name != "MISSING.txt" && name != "versions.txt" {
				t.Errorf("%s has nothing that is redacted: %.300q", name, text)
			}
			if strings.HasSuffix(name, ".json") && !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", name)
			}
		}
	}
}
