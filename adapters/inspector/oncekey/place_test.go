package main

import (
	"strings"
	"testing"
)

// No part of a password is in the fault of an address, whichever characters it has.
func TestFaultsHaveNoPassword(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{
		{"--redis", "redis://:Secret/Secret@host:6379/0"},
		{"--redis", "redis://shop:Secret#Secret@host:6379/0"},
		{"--redis", "redis://:Sec%rSecret@host:6379/0"},
		{"--redis", "redis://:12/Secret@host:6379/0"},
		{"--redis", "redis://:12/Secret/x@host:6379/0"},
		{"--redis", "redis://:12?Secret=x@host:6379/0"},
		{"--redis", "redis://:a@b/Secret@host:6379/0"},
		{"--redis", "redis://:a@b/Secret@host:6379/0?master_name=shop"},
		{"--redis", "redis://:Secret"},
		{"--postgres", "host=db password = Secret sslmode=some"},
		{"--postgres", `host=db password='it\'s Secret' sslmode=some`},
		{"--postgres", "host=db PASSWORD=Secret sslmode=some"},
		{"--postgres", "postgres://shop:Secret/Secret@host/db"},
		{"--url", "http://shop:Secret/Secret@host/"},
	} {
		text, code := said(t, append(args, "list")...)
		if code != exitUsage || !strings.Contains(text, args[0]+":") || strings.Contains(text, "Secret") {
			t.Errorf("%s: exit code %d and %q", args, code, text)
		}
	}
}
