package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// A child is a process that answers each line with a line, and ends with its stdin. Its first line
// begins with "ready".
type child struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	out  *bufio.Reader
	said bytes.Buffer // its stderr
}

// child starts a child that ends with the test, and returns the rest of its first line. If the
// child does not get ready, child returns nil and the reason.
func (l *lab) child(t *testing.T, cmd *exec.Cmd) (*child, string) {
	t.Helper()
	c := &child{cmd: cmd}
	cmd.Stderr = &c.said
	cmd.WaitDelay = time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.in, c.out = in, bufio.NewReader(out)
	if err := cmd.Start(); err != nil {
		return nil, err.Error()
	}
	stop := context.AfterFunc(l.ctx, func() { in.Close() })
	t.Cleanup(func() { stop(); c.end() })
	line, err := c.out.ReadString('\n')
	rest, ready := strings.CutPrefix(line, "ready")
	if err != nil || !ready {
		c.end()
		return nil, strings.TrimSpace(fmt.Sprint(line, err, " ", c.said.String()))
	}
	return c, strings.TrimSpace(rest)
}

// end closes the child's stdin, and kills the child if that does not end it.
func (c *child) end() {
	c.in.Close()
	if c.cmd.ProcessState != nil {
		return
	}
	kill := time.AfterFunc(15*time.Second, func() { c.cmd.Process.Kill() })
	defer kill.Stop()
	io.Copy(io.Discard, c.out)
	c.cmd.Wait()
}

// ask writes a line and reads the answer.
func (c *child) ask(format string, args ...any) (string, error) {
	if _, err := fmt.Fprintf(c.in, format+"\n", args...); err != nil {
		c.end()
		return "", fmt.Errorf("%w\n%s", err, &c.said)
	}
	line, err := c.out.ReadString('\n')
	if err != nil {
		c.end()
		return "", fmt.Errorf("it ended instead of answering: %w\n%s", err, &c.said)
	}
	return strings.TrimSpace(line), nil
}

// figures asks for numbers and returns them.
func (c *child) figures(format string, args ...any) ([]float64, error) {
	line, err := c.ask(format, args...)
	if err != nil {
		return nil, err
	}
	var got []float64
	for word := range strings.FieldsSeq(line) {
		x, err := strconv.ParseFloat(word, 64)
		if err != nil {
			return nil, errors.New("it answered " + line)
		}
		got = append(got, x)
	}
	return got, nil
}
