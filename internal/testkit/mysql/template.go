package mysqltest

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const (
	// initializeDeadline bounds the making of a data folder.
	initializeDeadline = 5 * time.Minute
	// templateAge is how long an unused template is kept.
	templateAge = 7 * 24 * time.Hour
)

// makeTemplate returns a data folder for copies. It is made once for each version, and kept in a cache folder:
// MySQL computes for three seconds to make one, and a copy takes 0.2 seconds.
func (v *Vendor) makeTemplate() (string, error) {
	found, err := v.find()
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	made := slices.Concat([]string{found.version}, v.initialize, v.settings)
	folder := filepath.Join(cache, fmt.Sprintf("%s-%x", v.name, sha256.Sum256([]byte(strings.Join(made, "\n"))))[:len(v.name)+17])
	now := time.Now()
	if os.Chtimes(folder, now, now) == nil { // it exists, and is in use
		return folder, nil
	}
	removeOld(cache)
	temporary, err := os.MkdirTemp(cache, "new-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(temporary) }() // removeOld removes a rest
	if err := v.initializeIn(temporary, found.path); err != nil {
		return "", err
	}
	if err := os.Rename(filepath.Join(temporary, data), folder); err != nil && os.Chtimes(folder, now, now) != nil {
		return "", err // and no other process was faster
	}
	return folder, nil
}

// cacheFolder makes a folder in the user's cache folder, or among the temporary files for a user without a home.
func cacheFolder() (string, error) {
	const name = "oncekey-tests"
	if cache, err := os.UserCacheDir(); err == nil {
		folder := filepath.Join(cache, name)
		if os.MkdirAll(folder, 0o750) == nil {
			return folder, nil
		}
	}
	folder := filepath.Join(os.TempDir(), fmt.Sprintf("%s-%d", name, os.Getuid()))
	return folder, os.MkdirAll(folder, 0o750)
}

// initializeIn makes the data folder in a folder.
func (v *Vendor) initializeIn(folder, server string) error {
	command := slices.Clone(v.initialize)
	if command[0] == "" {
		command[0] = server
	}
	arguments := append(options(folder, v.settings), command[1:]...)
	ctx, cancel := context.WithTimeout(context.Background(), initializeDeadline)
	defer cancel()
	if output, err := exec.CommandContext(ctx, command[0], arguments...).CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w:\n%s", command[0], err, output)
	}
	return nil
}

// removeOld removes the templates that no test has used for long. A template that cannot be removed stays.
func removeOld(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > templateAge {
			_ = os.RemoveAll(filepath.Join(cache, entry.Name()))
		}
	}
}
