package serverproc

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// templateAge is how long an unused template is kept.
const templateAge = 7 * 24 * time.Hour

// Template returns a data folder for copies: a server computes for up to three seconds to make one, and a copy takes 0.1 seconds.
// It is made once for the arguments, which name the server's version too, and kept in a cache folder. The function makes it at
// the path that it gets.
func Template(server string, arguments []string, initialize func(folder string) error) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	folder := filepath.Join(cache, fmt.Sprintf("%s-%x", server, sha256.Sum256([]byte(strings.Join(arguments, "\n"))))[:len(server)+17])
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
	made := filepath.Join(temporary, "data")
	if err := initialize(made); err != nil {
		return "", err
	}
	if err := os.Rename(made, folder); err != nil && os.Chtimes(folder, now, now) != nil {
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

// removeOld removes the templates that no test has used for long. A template that cannot be removed stays.
func removeOld(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, entry := range entries {
		if info, err := entry.Info(); err == nil && time.Since(info.ModTime()) > templateAge {
			_ = os.RemoveAll(filepath.Join(cache, entry.Name()))
		}
	}
}
