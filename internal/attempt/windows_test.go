package attempt

import "testing"

// TestIsWindows has the words of shells, of env(1) and of what starts programs, and progress bars, which return the carriage too.
func TestIsWindows(t *testing.T) {
	for said, want := range map[string]bool{
		"./run.sh: /bin/bash^M: bad interpreter: No such file or directory":                true,
		"bash: ./run.sh: /bin/bash^M: bad interpreter: No such file":                       true,
		"zsh: ./run.sh: bad interpreter: /bin/bash^M: no such file":                        true,
		"run.sh: line 2: $'\\r': command not found":                                        true,
		"run.sh: line 3: cd: $'/data\\r': No such file or directory":                       true,
		"run.sh: line 4: syntax error near unexpected token `$'do\\r''":                    true,
		"run.sh: line 1: set: -\r: invalid option":                                         true,
		"sh: 1: set: Illegal option -\r":                                                   true,
		"sh: 2: python train.py\r: not found":                                              true,
		"/usr/bin/env: ‘python3\\r’: No such file or directory":                            true,
		"/usr/bin/env: 'bash\r': No such file or directory":                                true,
		"env: can't execute 'bash\r': No such file or directory":                           true,
		"run.sh: line 3: exit: 3\r: numeric argument required":                             true,
		"run.sh: line 2: \r: command not found":                                            true,
		"sh: 1: train: not found":                                                          false,
		"\rEpoch 1:  50%|#####     | 5/10\rEpoch 1: 100%|##########| 10/10\nKeyError: 'x'": false,
		"expected '\\r' at the end of a line, found EOF":                                   false,
		"": false,
	} {
		if got := IsWindows(said); got != want {
			t.Errorf("%q: %v", said, got)
		}
	}
}
