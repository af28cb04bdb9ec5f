package main

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// The document names the modules that the library links, and none that only tests or tools need.
func TestDocumentOfThisCheckout(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	if err := run(t.Context(), &text, "v0.1.0", []string{"../..", ".", "core/pgstore"}); err != nil {
		t.Fatal(err)
	}
	var doc document
	if err := json.Unmarshal(text.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, p := range doc.Packages {
		versions[p.Name] = p.VersionInfo
		if p.VersionInfo == "" || !strings.HasSuffix(p.ExternalRefs[0].Locator, "@"+p.VersionInfo) {
			t.Errorf("%s has the version %q and the reference %v", p.Name, p.VersionInfo, p.ExternalRefs)
		}
	}
	for _, name := range []string{"github.com/go-chi/chi/v5", "github.com/redis/go-redis/v9", "github.com/jackc/pgx/v5"} {
		if versions[name] == "" {
			t.Errorf("%s is not there", name)
		}
	}
	for _, name := range []string{"github.com/chromedp/chromedp", "mvdan.cc/gofumpt", "go.opentelemetry.io/otel"} {
		if versions[name] != "" {
			t.Errorf("%s is there, and users of these modules do not link it", name)
		}
	}
	const own = "github.com/oncekey/oncekey"
	if versions[own] != "v0.1.0" || versions[own+"/core/pgstore"] != "v0.1.0" {
		t.Errorf("the own modules are %q and %q", versions[own], versions[own+"/core/pgstore"])
	}
	for _, want := range []relationship{
		{doc.SPDXID, "DESCRIBES", idOf(own)},
		{doc.SPDXID, "DESCRIBES", idOf(own + "/core/pgstore")},
		{idOf(own + "/core/pgstore"), "DEPENDS_ON", idOf("github.com/jackc/pgx/v5")},
		{idOf(own + "/core/pgstore"), "DEPENDS_ON", idOf(own)},
	} {
		if !slices.Contains(doc.Relationships, want) {
			t.Errorf("no relationship %v", want)
		}
	}
	var again bytes.Buffer
	if err := run(t.Context(), &again, "v0.1.0", []string{"../..", ".", "core/pgstore"}); err != nil || again.String() != text.String() {
		t.Errorf("written again, the document differs (%v)", err)
	}
}

func TestFoldersAreNeeded(t *testing.T) {
	t.Parallel()
	if err := run(t.Context(), &bytes.Buffer{}, "v0.1.0", []string{"../.."}); err == nil {
		t.Error("without a module there is no error")
	}
}
