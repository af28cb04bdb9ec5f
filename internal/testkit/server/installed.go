package serverproc

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"slices"
	"testing"
	"time"
)

const versionDeadline = time.Minute

// Require returns the server's programs that are found. Without a supported version it ends the test as [Missing] does.
func Require[Found any](t testing.TB, find func() (Found, error)) Found {
	t.Helper()
	found, err := find()
	if err != nil {
		Missing(t, err.Error())
	}
	return found
}

// Banner returns the text with which a program tells its version.
func Banner(path string, arguments ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), versionDeadline)
	defer cancel()
	banner, err := exec.CommandContext(ctx, path, append(arguments, "--version")...).Output()
	if err != nil {
		return "", fmt.Errorf("%s --version: %w", path, err)
	}
	return string(banner), nil
}

// CheckVersion returns the version of a server in a banner: the group of a pattern. It returns an error for a version before
// the oldest, such as "8.0".
func CheckVersion(server, banner string, pattern *regexp.Regexp, oldest string) (string, error) {
	match := pattern.FindStringSubmatch(banner)
	if match == nil {
		return "", fmt.Errorf("%s has printed no version that can be read: %q", server, banner)
	}
	var version, supported [2]int
	_, _ = fmt.Sscanf(match[1], "%d.%d", &version[0], &version[1]) // a development version has one number
	_, _ = fmt.Sscanf(oldest, "%d.%d", &supported[0], &supported[1])
	if slices.Compare(version[:], supported[:]) < 0 {
		return "", fmt.Errorf("%s %s is too old: %s is the oldest that is supported", server, match[1], oldest)
	}
	return match[1], nil
}
