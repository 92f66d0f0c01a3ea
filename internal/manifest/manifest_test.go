package manifest

import ("testing";"fmt")
func TestX(t *testing.T){
 for _, s := range []string{
 "version: 1\nowner: site\ndefaults: {tags: [site], redirectStatus: 301}\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", customCode: docs, title: Documentation}\n  - {key: blog, url: \"https://example.com/blog\", strategy: DETERMINISTIC, routing: {query: {mode: ADD}}}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", customCode: 010, title: 301, archived: \"true\", foo: 1}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", customCode: 010, title: 301, maxClicks: 1.5}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", customCode: 010, title: 301, note: true, archived: \"true\"}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", customCode: 010, title: 301, note: 2026-01-01, expiresAt: 2026-01-01}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", expiresAt: '2030-01-01T00:00:00+02:00', startsAt: 2029-01-01T00:00:00Z # x\n  }\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", tags: x}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", routing: {rules: [{targets: [{share: 2, urll: x}]}]}}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", routing: {rules: [{targets: [{share: 2, url: x}]}]}}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", routing: {rules: [{when: [{\"country\":[\"DE\"]}], targets: [{}]}], gate: {password: x}}}\n",
 "version: 1\nowner: site\nlinks:\n  - {key: docs, url: \"https://example.com/docs\", title: \"\\U0001f600 \\u2028\", expiresAt: 2026-13-01}\n",
 }{
  f, err := Parse([]byte(s)); 
  fmt.Println("ERR", err)
  if f!=nil { for _, l := range f.Links { fmt.Printf("%s %s\n", l.Key, l.Strategy); if l.CustomCode!=nil{fmt.Println(*l.CustomCode)}; for _, x := range l.fields() { if string(x.value)!="null" {fmt.Print(" ",x.name,"=",string(x.value))} }; fmt.Println() } }
 }
}
