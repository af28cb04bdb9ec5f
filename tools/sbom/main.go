// Command sbom writes a software bill of materials as an SPDX 2.3 document in JSON: the modules whose packages the
// given modules of a checkout link, with their versions.
//
//	sbom -version v0.1.0 CHECKOUT MODULE...
//
// Each MODULE is a folder in the checkout. The document depends on the checkout's commit alone, so that it can be
// repeated.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/oncekey/oncekey/tools/internal/command"
)

// module is a Go module as go list prints it.
type module struct {
	Path    string
	Version string
	Main    bool
}

type document struct {
	SPDXVersion       string         `json:"spdxVersion"`
	DataLicense       string         `json:"dataLicense"`
	SPDXID            string         `json:"SPDXID"`
	Name              string         `json:"name"`
	DocumentNamespace string         `json:"documentNamespace"`
	CreationInfo      creation       `json:"creationInfo"`
	Packages          []pkg          `json:"packages"`
	Relationships     []relationship `json:"relationships"`
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pkg struct {
	Name             string      `json:"name"`
	SPDXID           string      `json:"SPDXID"`
	VersionInfo      string      `json:"versionInfo"`
	DownloadLocation string      `json:"downloadLocation"`
	FilesAnalyzed    bool        `json:"filesAnalyzed"`
	ExternalRefs     []reference `json:"externalRefs"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	Element string `json:"spdxElementId"`
	Type    string `json:"relationshipType"`
	Related string `json:"relatedSpdxElement"`
}

func main() {
	version := flag.String("version", "unreleased", "version of the checkout's modules")
	flag.Parse()
	if err := run(context.Background(), os.Stdout, *version, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "sbom:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer, version string, arguments []string) error {
	if len(arguments) < 2 {
		return errors.New("give the checkout's folder, and the folders of its modules")
	}
	checkout, folders := arguments[0], arguments[1:]
	hash, created := commitOf(ctx, checkout)
	linked := make(map[string][]module, len(folders))
	for _, folder := range folders {
		modules, err := modulesOf(ctx, filepath.Join(checkout, folder))
		if err != nil {
			return err
		}
		linked[folder] = modules
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(describe(version, hash, created, linked))
}

// commitOf returns the commit of a checkout and its time; "unknown" and the epoch for sources without a history.
func commitOf(ctx context.Context, checkout string) (hash string, created time.Time) {
	line, err := command.Output(ctx, checkout, nil, "git", "log", "-1", "--format=%H %cI")
	if err != nil {
		return "unknown", time.Unix(0, 0)
	}
	hash, date, _ := strings.Cut(line, " ")
	created, err = time.Parse(time.RFC3339, date)
	if err != nil {
		return hash, time.Unix(0, 0)
	}
	return hash, created
}

// modulesOf returns the modules that the packages of the module in a folder link, the folder's own first.
func modulesOf(ctx context.Context, folder string) ([]module, error) {
	listed, err := command.Output(ctx, folder, []string{"GOWORK=off"}, "go", "list", "-deps", "-f", "{{with .Module}}{{.Path}} {{.Version}} {{.Main}}{{end}}", "./...")
	if err != nil {
		return nil, err
	}
	seen := make(map[string]module)
	for line := range strings.Lines(listed) {
		fields := strings.Fields(line)
		switch len(fields) {
		case 3:
			seen[fields[0]] = module{Path: fields[0], Version: fields[1], Main: fields[2] == "true"}
		case 2: // the folder's own has no version
			seen[fields[0]] = module{Path: fields[0], Main: fields[1] == "true"}
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b module) int {
		switch {
		case a.Main:
			return -1
		case b.Main:
			return 1
		default:
			return strings.Compare(a.Path, b.Path)
		}
	}), nil
}

// describe makes the document. Modules of the checkout have the given version.
func describe(version, commit string, created time.Time, linked map[string][]module) document {
	const own = "github.com/oncekey/oncekey"
	doc := document{
		SPDXVersion: "SPDX-2.3", DataLicense: "CC0-1.0", SPDXID: "SPDXRef-DOCUMENT", Name: "oncekey " + version,
		DocumentNamespace: "https://" + own + "/sbom/" + version + "/" + commit,
		CreationInfo:      creation{created.UTC().Format(time.RFC3339), []string{"Tool: oncekey-sbom"}},
	}
	versions := make(map[string]string)
	for _, folder := range slices.Sorted(maps.Keys(linked)) {
		modules := linked[folder]
		for i, m := range modules {
			if m.Path == own || strings.HasPrefix(m.Path, own+"/") {
				m.Version = version
			}
			versions[m.Path] = m.Version
			switch {
			case m.Main:
				doc.Relationships = append(doc.Relationships, relationship{doc.SPDXID, "DESCRIBES", idOf(m.Path)})
			case i > 0:
				doc.Relationships = append(doc.Relationships, relationship{idOf(modules[0].Path), "DEPENDS_ON", idOf(m.Path)})
			}
		}
	}
	for _, path := range slices.Sorted(maps.Keys(versions)) {
		doc.Packages = append(doc.Packages, pkg{
			Name: path, SPDXID: idOf(path), VersionInfo: versions[path], DownloadLocation: "NOASSERTION",
			ExternalRefs: []reference{{"PACKAGE-MANAGER", "purl", "pkg:golang/" + path + "@" + versions[path]}},
		})
	}
	return doc
}

// notInID are the characters that an SPDX identifier must not have.
var notInID = regexp.MustCompile(`[^A-Za-z0-9.-]`)

func idOf(path string) string { return "SPDXRef-" + notInID.ReplaceAllString(path, "-") }
