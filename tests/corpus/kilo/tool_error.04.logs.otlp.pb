
Ñ
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
7.7.7‘


opencode‚	Info	‚l`ûcìY‚l`ûcì2
fiberIdŸÑ*9*7

shell tool using shell

{"shell":"/usr/bin/bash"}J”õ´f²»i5M	â¬BžßJR2Mâ4\2Ñ