package credential

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
)

const (
	// shortestPassword is the least length of what is called a password.
	shortestPassword = 4
	// mostTold is by how many bytes a value is told from others.
	mostTold = 256
	// mostBefore is how far before a word it is looked at what the word belongs to.
	mostBefore = 200
)

// anchors are the words beside which secrets of any form are.
func anchors() (all []anchor) {
	add := func(find func(string, int, int) (match, bool), words ...string) {
		for _, w := range words {
			all = append(all, anchor{w, find})
		}
	}
	add(afterScheme, "bearer", "basic")
	add(header, "authorization", "x-api-key", "cookie")
	add(assigned, "key", "token", "secret", "passw", "passphrase", "credential", "sshpass", "_pat", "_pass", "_pwd", "pass", "pwd", "pw", "auth", "sessid", "sessionid")
	add(login, "login")
	add(user, "-u", "--user", "--proxy-user")
	add(passwordFlag, "-p", "-a", "-w")
	add(userinfo, "://")
	add(account, "@")
	add(signature, "signature=", "sig=", "signature%3d", "sig%3d")
	add(named, "wandb")
	return all
}

// afterScheme finds the token of "Bearer abc".
func afterScheme(s string, begin, end int) (match, bool) {
	at := run(s, end, func(c byte) bool { return c == ' ' })
	last := run(s, at, isValue)
	value := s[at:last]
	plain, err := base64.StdEncoding.DecodeString(value)
	if at == end || at > end+4 || len(value) < 8 || !strings.ContainsAny(value, "0123456789=._") && (err != nil || !strings.Contains(string(plain), ":")) {
		return match{}, false
	}
	return match{begin, at, last}, true
}

// header finds the value of a header, to the end of its line or of the quotes that it is in.
func header(s string, begin, end int) (match, bool) {
	isMany := end < len(s) && lower(s[end]) == 's' // cookies={...}
	if isMany {
		end++
	}
	at, quote, ok := operator(s, end)
	if !ok || isMany && (at >= len(s) || s[at] != '{') {
		return match{}, false
	}
	if quote == "" && at < len(s) && s[at] == '[' { // as Go prints it
		at, quote = at+1, "]"
	}
	if quote == "" { // of the whole header
		quote = quoteBefore(s, run0(s, begin))
	}
	last := at
	for last < len(s) && last < at+longestSecret && s[last] != '\n' && s[last] != '\r' && s[last] != '<' && s[last] != '`' {
		if strings.HasPrefix(s[last:], `\n`) || strings.HasPrefix(s[last:], `\r`) || quote != "" && strings.HasPrefix(s[last:], quote) && s[last-1] != '\\' || s[last] == '"' && closes(s, last) {
			break
		}
		last++
	}
	return match{begin, at, last}, last-at >= shortestValue
}

// closes reports whether a quote ends a text of JSON.
func closes(s string, at int) bool {
	rest := s[at+1:]
	return s[at-1] != '\\' && (rest == "" || strings.IndexByte("}]\n:", rest[0]) >= 0 || strings.HasPrefix(rest, `,"`) || strings.HasPrefix(rest, ",\n"))
}

// assigned finds the value of a name that is a credential's: in "HF_TOKEN=abc", "--api-key abc", {"password": "abc"}, "password abc".
func assigned(s string, begin, end int) (match, bool) {
	begin = run0(s, begin)
	end = min(run(s, end, isWord), begin+256)
	flag := s[begin] == '-'
	name := strings.ReplaceAll(strings.Trim(s[begin:end], "-"), "-", "_")
	inQuery := begin > 0 && (s[begin-1] == '?' || s[begin-1] == '&') || strings.HasSuffix(s[:begin], "&amp;") || strings.HasSuffix(s[:begin]+s[begin:min(begin+5, len(s))], ampersand)
	if strings.HasSuffix(s[:begin], "//") { // a user's name
		return match{}, false
	}
	at, quote, given := operator(s, end)
	if !given {
		at = spaces(s, end)
		if at == end {
			return match{}, false
		}
		at = told(s, at)
		quote = quoteAt(s, at)
		at += len(quote)
	}
	lowerName := strings.ToLower(name)
	if isSpecial := slices.Contains([]string{"auth", "_auth", "pass", "pwd", "pw", "key"}, lowerName) || isSession(lowerName); !isSpecial && !IsNamed(name, "x") {
		return match{}, false
	}
	last := valueEnd(s, at, quote, inQuery)
	if quote == "" { // it may be a value of JSON, or the end of a sentence
		last = at + len(strings.TrimRight(s[at:last], ")]}.,:"))
	}
	value := s[at:last]
	before := s[max(begin-mostBefore, 0):begin]
	m := match{begin, at, last}
	if len(value) > mostHarmless {
		return m, given
	}
	switch isPassword := isPasswordName(lowerName); {
	case lowerName == "auth" || lowerName == "_auth": // Docker's, npm's
		plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(value, "="))
		return m, given && (err == nil && len(value) >= 8 && strings.Contains(string(plain), ":") || isRandom(value, 24))
	case isSession(lowerName):
		return m, given && isRandom(value, 16)
	case lowerName == "pass" || lowerName == "pwd" || lowerName == "pw": // beside a user's name, or like no word
		isOdd := isRandom(value, shortestValue) && (name == lowerName || at == end+1 && s[end] == '=')
		return m, given && !isHarmless(value) && (isOdd || len(value) >= shortestPassword && hasWord(before, "user", "login", "uid", "username"))
	case lowerName == "key":
		switch word := lastWord(before); {
		case strings.HasSuffix(before, "login("), strings.HasSuffix(before, "webhook/send?"):
			return m, given && len(value) >= shortestValue
		case hasWord(before, "username") && isRandom(value, 16): // Kaggle's
			return m, given
		case !strings.HasSuffix(before, " ") || !slices.Contains(keyWords, word):
			return match{}, false
		}
		return m, (given && quote+value != "" || isRandom(value, 8)) && len(value) >= shortestValue && !isHarmless(value)
	case isPassword && given:
		return m, len(value) >= shortestPassword && !isHarmlessWord(value)
	case isPassword && flag:
		return m, len(value) >= shortestPassword && value[0] != '-' && !isHarmlessWord(value)
	case isPassword:
		return m, len(value) >= shortestPassword && isAlnum(value[0]) && !isHarmless(value) && !slices.Contains(afterPassword, strings.ToLower(value))
	case flag && given, flag && value != "" && value[0] != '-', given:
		if _, err := strconv.ParseFloat(value, 64); err == nil && quote == "" {
			return match{}, false
		}
		return m, len(value) >= shortestValue && IsNamed(name, value)
	}
	least := 16
	if strings.HasSuffix(lowerName, "api_key") || strings.HasSuffix(lowerName, "apikey") || at > spaces(s, end)+len(quote) {
		least = 8
	}
	return m, isRandom(value, least) && IsNamed(name, value)
}

func isSession(name string) bool {
	return strings.HasSuffix(name, "sessid") || strings.HasSuffix(name, "sessionid")
}

// told returns where the value begins in "is abc", "was: abc", "for joe: abc".
func told(s string, at int) int {
	last := run(s, at, isLetter)
	switch s[at:last] {
	case "is", "was", "to", "as":
		if last < len(s) && s[last] == ':' {
			last++
		}
		return spaces(s, last)
	case "for", "of":
		line := s[last:min(len(s), last+64)]
		if k := strings.Index(line, ": "); k >= 0 && !strings.ContainsAny(line[:k], "\n\\\"'<") {
			return spaces(s, last+k+1)
		}
	}
	return at
}

// keyWords are the words before "key" that make it a credential.
var keyWords = []string{"api", "access", "secret", "private", "auth", "license", "account", "encryption", "signing", "subscription", "storage", "registry", "master", "service"}

// afterPassword are the words after "password" that are none.
var afterPassword = strings.Fields(`accepted allowed also asked auth authentication authentications authorization based been before between cannot change changed changes check
	contains correct could differs does entered entry error expired failed failure field fields file files form free from given hash hashed hashes hashing have incorrect input
	invalid into length less lock login logins management manager match matches mismatch mismatched missing must needed never only option over policy prompt prompts protected
	protection provided read rejected required reset rotated rotation salt sent shall should store stored strength string strings than that then there this through update
	updated used using value values when which will with within without wrong would valid unknown empty unset strong weak short long protect input stdin variable`)

func isPasswordName(name string) bool {
	for _, end := range []string{"password", "passwd", "passphrase", "sshpass", "_pass", "_pwd"} {
		if strings.HasSuffix(name, end) {
			return IsNamed(name, "x")
		}
	}
	return false
}

// isHarmlessWord is isHarmless for what is called a password, which can be a number.
func isHarmlessWord(value string) bool {
	_, err := strconv.ParseFloat(value, 64)
	return isHarmless(value) && (err != nil || len(value) < shortestValue)
}

// lastWord returns the last word of a text, in small letters.
func lastWord(s string) string {
	s = strings.TrimRight(s, " ")
	return strings.ToLower(s[run0(s, len(s)):])
}

// previousIs reports whether the word before the last one is one of some.
func previousIs(s string, words ...string) bool {
	fields := strings.Fields(s)
	return len(fields) > 1 && slices.Contains(words, strings.Trim(fields[len(fields)-2], `"'`))
}

// hasWord reports whether the line that a text ends with has one of some words.
func hasWord(s string, words ...string) bool {
	s = strings.ToLower(s[strings.LastIndexAny(s, "\n\r")+1:])
	return slices.ContainsFunc(words, func(w string) bool {
		for at := 0; ; {
			k := strings.Index(s[at:], w)
			if k < 0 {
				return false
			}
			at += k + len(w)
			if (at == len(w) || !isWord(s[at-len(w)-1])) && (at == len(s) || !isWord(s[at])) {
				return true
			}
		}
	})
}

// login finds what is given to a command's login: "wandb login 0123abc".
func login(s string, begin, end int) (match, bool) {
	if end < len(s) && isWord(s[end]) || begin > 0 && isWord(s[begin-1]) {
		return match{}, false
	}
	at := end
	for range 3 { // after options
		next := spaces(s, at)
		if next == at {
			return match{}, false
		}
		at = next
		at += len(quoteAt(s, at))
		last := run(s, at, isValue)
		if value := strings.TrimRight(s[at:last], ".:)"); isRandom(value, 16) && value[0] != '-' {
			return match{begin, at, at + len(value)}, true
		}
		at = last
	}
	return match{}, false
}

// argument returns where the argument of an option begins, also in a list of quoted ones.
func argument(s string, end int) int {
	at := end
	for range 3 {
		at += len(quoteAt(s, at))
		at = min(run(s, at, func(c byte) bool { return c == '=' || c == ',' || c == ' ' || c == '\t' }), at+8)
	}
	return at + len(quoteAt(s, at))
}

// isOption reports whether a word begins an argument.
func isOption(s string, begin int) bool {
	return begin == 0 || strings.IndexByte(" \t\n[,(", s[begin-1]) >= 0 || quoteBefore(s, begin) != ""
}

// user finds the password of "-u joe:abc".
func user(s string, begin, end int) (match, bool) {
	if !isOption(s, begin) {
		return match{}, false
	}
	before := lastWord(s[max(begin-mostBefore, 0):begin])
	at := argument(s, end)
	if (at == end && s[begin+1] == '-') || strings.HasPrefix(before, "python") {
		return match{}, false
	}
	last := run(s[:min(len(s), begin+mostHarmless)], at, func(c byte) bool { return c == '&' || c == ';' || c == ',' || isValue(c) })
	value := s[at:max(at, last)]
	name, password, ok := strings.Cut(value, ":")
	if !ok && hasWord(s[max(begin-mostBefore, 0):begin], "smbclient", "smbget", "rpcclient") {
		name, password, ok = strings.Cut(value, "%")
	}
	_, err := strconv.Atoi(password)
	switch {
	case !ok || password == "":
		return match{begin, at, at + len(name)}, isRandom(name, 20) && strings.IndexByte(name, '.') < 0
	case err == nil && len(password) < 6, strings.HasPrefix(password, "//"):
		return match{}, false
	}
	return match{begin, at + len(name) + 1, at + len(value)}, true
}

// passwordFlag finds the password of "-p abc" and "-pabc" in commands that log in, and of "-a abc" and "-w abc" in some.
func passwordFlag(s string, begin, end int) (match, bool) {
	if !isOption(s, begin) {
		return match{}, false
	}
	before := s[max(begin-mostBefore, 0):begin]
	joined := hasWord(before, "mysql", "mysqldump", "mysqladmin", "mariadb", "sshpass", "7z", "7za", "zip", "unzip", "unrar")
	if c := lower(s[begin+1]); c == 'a' || c == 'w' {
		if c == 'a' && hasWord(before, "http", "https", "xh") {
			return user(s, begin, end)
		}
		if joined = false; c == 'a' && !hasWord(before, "redis-cli") || c == 'w' && !hasWord(before, "ldapsearch", "ldapmodify", "ldapadd", "ldapwhoami") {
			return match{}, false
		}
	} else if !joined && !hasWord(before, "login", "twine", "smbclient", "plink", "--username", "--user") && !previousIs(before, "-u") || hasWord(before, "ssh", "run", "exec") && !hasWord(before, "sshpass") {
		return match{}, false
	}
	at := argument(s, end)
	if at == end && !joined {
		return match{}, false
	}
	last := max(at, run(s[:min(len(s), begin+mostHarmless)], at, func(c byte) bool { return c == '&' || c == ';' || c == ',' || isValue(c) }))
	value := s[at:last]
	if _, err := strconv.Atoi(value); err == nil && len(value) < 6 && at > end {
		return match{}, false
	}
	return match{begin, at, last}, len(value) >= shortestPassword && value[0] != '-' && !path.MatchString(value)
}

// userinfo finds the password of an address, or a token in place of a user's name.
func userinfo(s string, begin, end int) (match, bool) {
	colon, slash, sign := -1, -1, -1
	at := end
	for ; at < len(s) && at < end+1024 && s[at] > ' ' && strings.IndexByte("\"<>`", s[at]) < 0 && !strings.HasPrefix(s[at:], "&#3") && !strings.HasPrefix(s[at:], "&lt;"); at++ {
		if s[at] == '\\' && !strings.HasPrefix(s[at:], ampersand) {
			break
		}
		switch c := s[at]; {
		case slash >= 0 && strings.HasPrefix(s[at:], "://"): // another address
			at = len(s)
		case c == '@':
			sign = at
		case sign >= 0 && (c == '/' || c == '?' || c == '#'):
			at = len(s)
		case c == ':' && colon < 0 && sign < 0:
			colon = at
		case strings.HasPrefix(s[at:], "%3A") && colon < 0 && sign < 0:
			colon, at = at+2, at+2
		case c == '/' && slash < 0:
			slash = at
		}
	}
	if sign < 0 {
		return match{}, false
	}
	if colon < 0 {
		return match{begin, end, sign}, isRandom(s[end:sign], 16) && (slash < 0 || slash > sign)
	}
	if slash >= 0 && slash < sign { // a password with a slash, or a port and a path
		if _, err := strconv.Atoi(s[colon+1 : slash]); err == nil || slash == colon+1 || slash < colon {
			return match{}, false
		}
	}
	return match{begin, colon + 1, sign}, sign > colon+1
}

// account finds the password of "joe:abc@host", an address without a scheme.
func account(s string, begin, end int) (match, bool) {
	from := begin
	for from > 0 && begin-from < 256 && (isValue(s[from-1]) && strings.IndexByte("()/@[]{}", s[from-1]) < 0) {
		from--
	}
	name, password, ok := strings.Cut(s[from:begin], ":")
	if !ok || name == "" || len(password) < shortestValue || strings.Contains(password, ":") || strings.IndexFunc(password, func(r rune) bool { return r < 0x80 && !isLetter(byte(r)) }) < 0 ||
		strings.IndexFunc(name, func(r rune) bool { return r >= 0x80 || !isWord(byte(r)) && r != '.' && r != '=' }) >= 0 || slices.Contains([]string{"mailto", "sip", "sips", "xmpp", "npm", "acct", "from", "to", "cc", "email", "author"}, strings.ToLower(name)) {
		return match{}, false
	}
	host := run(s, end, func(c byte) bool { return isWord(c) || c == '.' })
	next := byte(' ')
	if host < len(s) {
		next = s[host]
	}
	if host == end || !isLetter(s[end]) && !isDigit(s[end]) || strings.HasPrefix(s[end:], "sha256:") || next != ':' && next != '(' && !strings.Contains(strings.Trim(s[end:host], "."), ".") {
		return match{}, false
	}
	return match{from, from + len(name) + 1, begin}, true
}

// signature finds what lets whoever has a signed address use it.
func signature(s string, begin, end int) (match, bool) {
	if begin > 0 && isAlnum(s[begin-1]) && !strings.HasSuffix(s[:begin], ampersand) {
		return match{}, false
	}
	end += len(quoteAt(s, end))
	is := func(c byte) bool { return isWord(c) || strings.IndexByte("%+/=.~", c) >= 0 }
	if last := run(s[:min(len(s), end+mostTold)], end, is); last-end < 16 || !strings.ContainsAny(s[end:last], "0123456789%") {
		return match{}, false
	}
	return match{begin, end, run(s, end, is)}, true
}

// named finds the keys of Weights & Biases, which are 40 hexadecimal digits, as a commit is, beside its name.
func named(s string, begin, end int) (match, bool) {
	end = run(s, end, isWord)
	at, _, ok := operator(s, end)
	if !ok {
		return match{}, false
	}
	last := run(s, at, isHex)
	return match{begin, at, last}, last-at == 40 && (last == len(s) || !isWord(s[last]))
}
