
§
º
'
deployment.environment.name
latest

opencode.client
cli

opencode.run

ea94fb20
!
service.instance.id

ea94fb20

service.name

opencode

service.version
7.7.7h


opencodeZ	Info	vKzSýbìYvKzSýbì2
fiberIdÊÐ*
event connectedJ°ŽpâeŸN‚}m wX°ÄR,[Æyô&žm