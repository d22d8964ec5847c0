package launcher

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// What Open MPI asks for: release 4.1.4 as it was seen, and 5 by its sources.
var asked = map[string]string{
	`  orted -mca orte_leave_session_attached "1" -mca ess "env" -mca ess_base_jobid "1362100224" -mca ess_base_vpid 1 -mca ess_base_num_procs "3" -mca orte_node_regex "a[1:2]b87f371752,[2:10].9.9.1,[2:10].9.9.2@0(3)" -mca orte_hnp_uri "1362100224.0;tcp://172.17.0.2:33773" --mca btl "tcp,self" -mca plm "rsh" -mca plm_rsh_no_tree_spawn "1" -mca plm_rsh_agent "sh /tmp/agent.sh" -mca pmix "^s1,s2,cray,isolated"`:                                                                           `exec 'orted' -mca orte_leave_session_attached '1' -mca ess 'env' -mca ess_base_jobid '1362100224' -mca ess_base_vpid '1' -mca ess_base_num_procs '3' -mca orte_node_regex 'a[1:2]b87f371752,[2:10].9.9.1,[2:10].9.9.2@0(3)' -mca orte_hnp_uri '1362100224.0;tcp://172.17.0.2:33773' --mca btl 'tcp,self' -mca plm 'rsh' -mca plm_rsh_no_tree_spawn '1' -mca pmix '^s1,s2,cray,isolated'`,
	`          PATH=/usr/bin:$PATH ; export PATH ; LD_LIBRARY_PATH=/usr/lib:${LD_LIBRARY_PATH:-} ; export LD_LIBRARY_PATH ; DYLD_LIBRARY_PATH=/usr/lib:${DYLD_LIBRARY_PATH:-} ; export DYLD_LIBRARY_PATH ;   /usr/bin/orted -mca ess "env"`:                                                                                                                                                                                                                                                            `PATH='/usr/bin':"${PATH-}"; export PATH; LD_LIBRARY_PATH='/usr/lib':"${LD_LIBRARY_PATH-}"; export LD_LIBRARY_PATH; DYLD_LIBRARY_PATH='/usr/lib':"${DYLD_LIBRARY_PATH-}"; export DYLD_LIBRARY_PATH; exec '/usr/bin/orted' -mca ess 'env'`,
	`PRTE_PREFIX=/opt/ompi;export PRTE_PREFIX;LD_LIBRARY_PATH=/opt/ompi/lib:/opt/pmix/lib:$LD_LIBRARY_PATH;export LD_LIBRARY_PATH;DYLD_LIBRARY_PATH=/opt/ompi/lib:/opt/pmix/lib:$DYLD_LIBRARY_PATH;export DYLD_LIBRARY_PATH;/opt/ompi/bin/prted --leave-session-attached --prtemca ess "env" --prtemca ess_base_nspace "prterun-a-12@0" --prtemca ess_base_vpid 1 --prtemca ess_base_num_procs "2" --prtemca prte_hnp_uri "prterun-a-12@0.0;tcp://172.17.0.2:33773:16" --pmixmca mca_base_verbose "0"`: `PRTE_PREFIX='/opt/ompi'; export PRTE_PREFIX; LD_LIBRARY_PATH='/opt/ompi/lib:/opt/pmix/lib':"${LD_LIBRARY_PATH-}"; export LD_LIBRARY_PATH; DYLD_LIBRARY_PATH='/opt/ompi/lib:/opt/pmix/lib':"${DYLD_LIBRARY_PATH-}"; export DYLD_LIBRARY_PATH; exec '/opt/ompi/bin/prted' --leave-session-attached --prtemca ess 'env' --prtemca ess_base_nspace 'prterun-a-12@0' --prtemca ess_base_vpid '1' --prtemca ess_base_num_procs '2' --prtemca prte_hnp_uri 'prterun-a-12@0.0;tcp://172.17.0.2:33773:16' --pmixmca mca_base_verbose '0'`,
	`( test ! -r ./.profile || . ./.profile; orted --daemonize -mca ess "env" --hnp-topo-sig 0N:1S:0L3:2L2:2L1:2C:2H:x86_64 )`: `exec 'orted' --daemonize -mca ess 'env' --hnp-topo-sig '0N:1S:0L3:2L2:2L1:2C:2H:x86_64'`,
}

func TestDaemonsOfOpenMPI(t *testing.T) {
	for text, want := range asked {
		if got, err := daemon(text); got != want || err != nil {
			t.Errorf("%s:\ngot  %s, %v\nwant %s", text, got, err, want)
		}
	}
}

// attacks are what a first node may ask for to have something else run on another one.
var attacks = []string{
	"", " ", "sh", "sh -c 'id'", "id", "orted; id", "orted && id", "orted | id", "orted & id", "orted\nid", "orted `id`", "orted $(id)", `orted -mca ess "$(id)"`,
	"orted -mca ess \"`id`\"", `orted -mca ess "a" ; id`, `orted -mca ess "a"id`, `orted -mca ess "a""b`, `orted -mca ess "a` + "\n" + `id"`, `orted -mca ess 'a'`, `orted -mca ess "\"; id; \""`,
	"orted -mca ess", "orted -mca", "orted -mca 'ess;id' x", "orted -mca ess >/tmp/x", "orted id", "orted --unknown", "orted -c id", "orted # x", "orted -mca ess *", "orted -mca ess ~",
	"./orted", "bin/orted", "/tmp/../bin/orted", "/tmp//orted", "/tmp/x/notorted", "/bin/sh orted", "env orted", "valgrind orted", "xorted", "orted.sh", "ssh host orted",
	"PATH=/tmp orted", "PATH=/tmp; id", "PATH=/tmp;export PATH;id", "LD_PRELOAD=/tmp/x.so;export LD_PRELOAD;orted", "PATH=$(id);export PATH;orted", "PATH=/a:$HOME;export PATH;orted",
	"PATH=/a;export HOME;orted", "PATH='/a b';export PATH;orted", "PATH=/a:`id`;export PATH;orted", "BASH_ENV=/x;export BASH_ENV;orted", "PATH=/a:${PATH:-$(id)};export PATH;orted",
	"( test ! -r ./.profile || . ./.profile; id )", "( test ! -r ./.profile || . ./.profile; orted", "( test ! -r ./.profile || . /tmp/x; orted )", "( orted )",
	"( test ! -r ./.profile || . ./.profile; orted ) ; id )",
	"orted -mca orte_launch_agent x", "orted -mca orte_fork_agent x", "prted --prtemca prte_fork_agent x", "orted -mca mca_base_component_path /tmp", "orted -mca mca_component_path /tmp",
	"orted -mca mca_base_param_files /tmp/x", "orted -mca orte_xterm 1", "prted --prtemca prte_xterm x", "prted --prtemca plm_ssh_pass_libpath /x", "prted --prtemca plm_ssh_chdir /x",
	"while true; do id; done", "exec orted", "command orted", "\xff", strings.Repeat("orted ", 1000),
}

// A text that is no daemon's is refused, and the error says so.
func TestDaemonRefuses(t *testing.T) {
	for _, text := range attacks {
		if got, err := daemon(text); got != "" || !errors.Is(err, ErrRelay) || !strings.Contains(err.Error(), "something else than a daemon of Open MPI") || len(err.Error()) > 500 {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
}

// What is run is one program, with words that no shell interprets.
func FuzzDaemon(f *testing.F) {
	for text := range asked {
		f.Add(text)
	}
	for _, text := range attacks {
		f.Add(text)
	}
	made := regexp.MustCompile(`^((PATH|LD_LIBRARY_PATH|DYLD_LIBRARY_PATH|OPAL_PREFIX|PRTE_PREFIX|PMIX_PREFIX)='[^']*'(:"\$\{\w+-\}")?; export \w+; )*exec '(/[^']*/)?(orted|prted)'( [\w-]+| '([^']|'\\'')*')*$`)
	f.Fuzz(func(t *testing.T, text string) {
		got, err := daemon(text)
		if err == nil && !made.MatchString(got) || err != nil && got != "" {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	})
}

// A shell runs the daemon with the words that the first node's Open MPI has meant, and nothing else.
func TestDaemonRuns(t *testing.T) {
	bin := t.TempDir()
	for _, name := range []string{"orted", "prted"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\nprintf '%s|' \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for text, want := range map[string]string{
		`orted -mca ess "a;b (c) [d] * it's" -mca x ^y`:                            "-mca|ess|a;b (c) [d] * it's|-mca|x|^y|",
		"PATH=" + bin + ":$PATH;export PATH;" + bin + `/prted --prtemca ess "env"`: "--prtemca|ess|env|",
	} {
		command, err := daemon(text)
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command("sh", "-c", command)
		cmd.Env, cmd.Dir = []string{"PATH=" + bin + ":" + os.Getenv("PATH")}, bin
		if out, err := cmd.CombinedOutput(); string(out) != want || err != nil {
			t.Errorf("%s: %s, %v", command, out, err)
		}
	}
}
