package machine

import "testing"

func TestEnvOfProcArgs(t *testing.T) {
	answer := "\x02\x00\x00\x00/bin/sleep\x00\x00\x00\x00sleep\x001000\x00A=1\x00GPUTRAIN_NODE=p-0\x00"
	if got := (Process{env: envOfProcArgs([]byte(answer))}).Getenv("GPUTRAIN_NODE"); got != "p-0" {
		t.Errorf("node %q", got)
	}
}

func FuzzEnvOfProcArgs(f *testing.F) {
	f.Add([]byte("\x02\x00\x00\x00/bin/sleep\x00\x00sleep\x001000\x00A=1\x00"))
	f.Add([]byte("\xff\xff\xff\xffx\x00"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, answer []byte) {
		if env := envOfProcArgs(answer); len(env) > len(answer) {
			t.Error("more came out than went in")
		}
	})
}
