package main

import (
	"cmp"
	"encoding/base64"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// hidden stands for a password, or for a part of one.
const hidden = "(hidden)"

// A password can stand before the host of a URL, among its parameters, and in the pairs of
// a key/value DSN. The last @ ends the first of them, because the password may have one.
var (
	beforeHost = regexp.MustCompile(`://(.*)@`)
	ofMySQL    = regexp.MustCompile(`^[^\s:/]+:(/?[^/].*)@`) // no URL, whose user is no secret
	ofPairs    = regexp.MustCompile(`(?i)(?:pass|secret|token|auth|key)[a-z0-9_-]*\s*=\s*`)
	nextPair   = regexp.MustCompile(`(?i)[\s&](?:host|hostaddr|port|user|dbname|sslmode|[a-z]*timeout|application_name)\s*=`)
)

// secretsOf returns each spelling of the passwords in an argument, and of the parts of which
// a driver may take them for something else. It finds too much rather than too little.
func secretsOf(argument string) (found []string) {
	add := func(text string) {
		for _, one := range []string{text, unescaped(text), strings.Trim(text, `'"`), unquoted(text)} {
			found = append(found, spellings(one)...)
			found = append(found, strings.FieldsFunc(one, func(r rune) bool { return unicode.IsSpace(r) || strings.ContainsRune(`/?#@:&='"\`, r) })...)
		}
	}
	for _, match := range beforeHost.FindAllStringSubmatch(argument, -1) {
		user, password, has := strings.Cut(match[1], ":")
		if has {
			add(password)
			add(base64.StdEncoding.EncodeToString([]byte(unescaped(user) + ":" + unescaped(password)))) // of a Basic sign-in
		} else if !strings.HasPrefix(argument, "postgres") {
			add(user) // a token in the place of the name
		}
	}
	if match := ofMySQL.FindStringSubmatch(argument); match != nil {
		add(match[1])
	}
	for _, match := range ofPairs.FindAllStringIndex(argument, -1) {
		value := argument[match[1]:]
		if next := nextPair.FindStringIndex(value); next != nil {
			value = value[:next[0]]
		}
		add(value)
	}
	return found
}

// spellings are a text as errors write it: as it is, in a URL, and in quotes.
func spellings(text string) []string {
	quoted := strconv.Quote(text)
	return []string{text, url.QueryEscape(text), url.PathEscape(text), quoted[1 : len(quoted)-1], safe(text)}
}

// unescaped returns a text without its percent signs, or as it is.
func unescaped(text string) string {
	if plain, err := url.PathUnescape(text); err == nil {
		return plain
	}
	return text
}

// unquoted returns a value of a key/value DSN as the driver reads it.
func unquoted(text string) string {
	return strings.NewReplacer(`\\`, `\`, `\'`, `'`, `\`, "").Replace(strings.Trim(text, "'"))
}

// shortest is the length from which on a part of a password says something about it. A
// shorter one would hide half of each message.
const shortest = 3

// hiding returns a function that hides the passwords of the command line, and of the
// variables that stand for a part of it, in a text.
func hiding(arguments []string) func(string) string {
	found := spellings(os.Getenv("ONCEKEY_TOKEN"))
	found = append(found, spellings(os.Getenv("PGPASSWORD"))...)
	for i, one := range arguments {
		found = append(found, secretsOf(one)...)
		if i > 0 && arguments[i-1] == "--token" {
			found = append(found, spellings(one)...)
		}
	}
	for _, name := range []string{"ONCEKEY_REDIS", "ONCEKEY_POSTGRES", "ONCEKEY_URL"} {
		found = append(found, secretsOf(os.Getenv(name))...)
	}
	return replacing(found)
}

// replacing returns a function that hides secrets in a text.
func replacing(secrets []string) func(string) string {
	all := slices.DeleteFunc(secrets, func(secret string) bool { return len(secret) < shortest })
	slices.SortFunc(all, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) }) // the longest first
	var pairs []string
	for _, one := range slices.Compact(all) {
		pairs = append(pairs, one, hidden)
	}
	return strings.NewReplacer(pairs...).Replace
}

// harmless are the header fields of which no value is a secret.
var harmless = []string{"Accept", "Accept-Language", "Content-Type", "Host", "User-Agent"}

// secretsOfValue returns each spelling of a header field's value and of its words, and the parts of
// a Basic sign-in.
func secretsOfValue(value string) (found []string) {
	parts := append(strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune(" \t;,=\"", r) }), value)
	for _, one := range parts {
		found = append(found, spellings(one)...)
	}
	r := &http.Request{Header: http.Header{"Authorization": {value}}}
	if user, password, is := r.BasicAuth(); is {
		found = append(found, spellings(user+":"+password)...)
		found = append(found, spellings(password)...)
	}
	return found
}
