package core

import (
	"context"
	"encoding/hex"
	"errors"
	"runtime/debug"
	"sync"

	"github.com/oncekey/oncekey/core/event"
	"github.com/oncekey/oncekey/core/internal/frame"
	"github.com/oncekey/oncekey/core/storage"
)

var thisBuild = sync.OnceValues(debug.ReadBuildInfo)

// programOf stands in records for the service, or for the program where that has no name: a short
// hash of the name, or of the path of the main package, or "" where the build does not know the
// path. It is no part of a storage key, so a program that is renamed keeps its keys.
func programOf(service string) string {
	kind, name := "service", service
	if build, known := thisBuild(); service == "" && known {
		kind, name = "program", build.Path
	}
	if name == "" {
		return ""
	}
	sum := frame.Sum(kind, name)
	return hex.EncodeToString(sum[:4])
}

var errOtherProgram = errors.New("oncekey: the store has a record of another program under a key of this one, so the clients of one may get responses of the other: " +
	"give each of two services that share a store its name by core.WithService. If this program was renamed or moved, its old records expire after their TTL")

// reportOtherProgram reports, once for each engine, a record that another program has made,
// where neither engine has a service's name.
func reportOtherProgram(ctx context.Context, a *attempt, origin *storage.Origin) {
	s := a.shared
	if s.service != "" || origin.Program == "" || s.program == "" || origin.Program == s.program || !s.mixed.first() {
		return
	}
	a.report(ctx, &event.Event{Result: event.WrongSetup, Holder: origin.Holder, Err: errOtherProgram})
}
