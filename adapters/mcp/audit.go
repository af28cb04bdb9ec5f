package idemmcp

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/oncekey/oncekey/policy"
)

// Audit compares the table with the tools of a server. Call it once before the server
// serves, after all tools and middleware are added. Audit lists the tools as a client in
// memory, and returns an error if the server does not let it.
//
// Errors of the report are a row without a tool, a row of a tool that is read-only by its
// annotations, and a server without guard.Receive, which only a tool that requires a key
// can show. A tool that is not guarded is a warning, unless its annotations say that it is
// read-only or idempotent.
func (g *Guard) Audit(ctx context.Context, server *mcp.Server) (policy.Report, error) {
	tools, err := toolsOf(ctx, server)
	if err != nil {
		return policy.Report{}, fmt.Errorf("idemmcp: listing the tools of the server: %w", err)
	}
	var report policy.Report
	for _, row := range g.rows {
		if fault := g.faultOf(&row, tools[row.Pattern]); fault != "" {
			report.Errors = append(report.Errors, fmt.Errorf("policy: %s: %s %s", row.Source, row.Route(), fault))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(tools)) {
		if g.tools[name] == nil && !mayRepeat(tools[name]) {
			report.Warnings = append(report.Warnings, "the tool "+name+" is not guarded: no idempotency policy covers it, so a retry runs it again")
		}
	}
	return report, nil
}

// faultOf returns the fault of a row, whose tool is nil if the server has none, or "".
func (g *Guard) faultOf(row *policy.Declaration, listed *mcp.Tool) string {
	switch {
	case listed == nil:
		return "matches no tool of the server: add the tool"
	case isReadOnly(listed):
		return "has the annotation readOnlyHint, so that it is safe to repeat as it is: leave it out of the table"
	case g.tools[row.Pattern].isIdempotent && (listed.Annotations == nil || !listed.Annotations.IdempotentHint):
		return "is not guarded: give guard.Receive to the server's AddReceivingMiddleware"
	default:
		return ""
	}
}

// toolsOf lists the tools of a server, over a session in memory.
func toolsOf(ctx context.Context, server *mcp.Server) (map[string]*mcp.Tool, error) {
	clientSide, serverSide := mcp.NewInMemoryTransports()
	serverSession, err := server.Connect(ctx, serverSide, nil)
	if err != nil {
		return nil, err
	}
	defer func() { _ = serverSession.Wait() }() // ends with the client's session
	client := mcp.NewClient(&mcp.Implementation{Name: "idemmcp.Audit", Version: "1"}, nil)
	session, err := client.Connect(ctx, clientSide, nil)
	if err != nil {
		_ = serverSession.Close() // the error is that of the client
		return nil, err
	}
	defer session.Close()
	tools := make(map[string]*mcp.Tool)
	for listed, err := range session.Tools(ctx, nil) {
		if err != nil {
			return nil, err
		}
		tools[listed.Name] = listed
	}
	return tools, nil
}
